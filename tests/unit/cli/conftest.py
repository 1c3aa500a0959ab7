"""A controller's API on the memory twins, in a thread, and this home's admin key of it."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn

from penstock.control.api.app import make_app
from penstock.domain.clock import SystemClock
from penstock.domain.ids import Alias, VersionId
from penstock.domain.tenancy.tenant import Role
from penstock.settings import load
from tests.support.controllers.in_memory import Room
from tests.support.samples import control_plane as things


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Room]:
    """Run a controller's API on a free port, with this home's admin key of tenant acme."""
    made = Room(SystemClock())
    key = asyncio.run(made.key(Role.ADMIN))
    small = (Alias("small"), things.route("small", VersionId("small@0123456789ab")))
    asyncio.run(made.registry.put_routes((small,), things.act()))
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(make_app(made.control), log_config=None, lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    (tmp_path / "run").mkdir()
    (tmp_path / "run/controller.addr").write_text(f"http://127.0.0.1:{listener.getsockname()[1]}")
    (tmp_path / "admin.key").write_text(key)
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    load.cache_clear()
    yield made
    load.cache_clear()
    server.should_exit = True
    thread.join()
    listener.close()
