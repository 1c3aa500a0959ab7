"""A real gateway process in a home of its own: table and keys from the copies on disk, no database, a stub engine."""

import hashlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import msgspec

from penstock.domain.fleet.table import Route, RoutingTable, Share, WorkerEntry
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import Alias, TenantId, WorkerId
from penstock.domain.tenancy.keys import Purpose, derive, mint
from penstock.domain.tenancy.tenant import KeyRing, Plan, Tenant
from penstock.filters.pack import Pack
from tests.support.models import tokenizers
from tests.support.patience import patient
from tests.support.samples.calls import VERSION

PLATFORM_KEY = bytes(range(32))
NO_PACKS = b'{"packs": [], "floor": []}'
"""The last good safety packs of a platform that has none: without a first set a gateway is not ready."""


def book(packs: Iterable[Pack], floor: Iterable[str]) -> bytes:
    """Return last good safety packs, as a gateway keeps them on disk."""
    told = [{"digest": pack.digest, "pack": pack.text} for pack in packs]
    return msgspec.json.encode({"packs": told, "floor": tuple(floor)})


TEMPLATE = (
    "{% for tool in tools or [] %}{{ tool.function.name }} {% endfor %}"
    "{% for m in messages %}{{ m.content }} {% if m.tool_calls %}{{ m.tool_calls | tojson }} {% endif %}{% endfor %}"
)
"""Shows tools and turns of tools, so that requests with them are served."""


@dataclass(frozen=True)
class Home:
    """A prepared folder: what a gateway needs to serve with everything else away."""

    root: Path
    key: str
    neighbour: str = ""
    """The key of another tenant, without any bounds."""

    @property
    def environment(self) -> dict[str, str]:
        away = "postgresql://nobody@/none?host=/nonexistent"
        return {**os.environ, "PENSTOCK_HOME": str(self.root), "PENSTOCK_PORT": "0", "PENSTOCK_DATABASE_URL": away}


def prepare(
    root: Path,
    engine_url: str,
    plan: Plan | None = None,
    *,
    context: int = VERSION.max_model_len,
    key_lasts_s: float = 0,
) -> Home:
    """Write platform key, tokenizer, last good table and last good keys."""
    blob = tokenizers.small()
    sha256 = hashlib.sha256(blob).hexdigest()
    secret, key = mint(TenantId("acme"), pepper=derive(PLATFORM_KEY, Purpose.PEPPER), now=0.0)
    key = replace(key, expires_at=time.time() + key_lasts_s if key_lasts_s else 0.0)
    neighbour, its_key = mint(TenantId("bob"), pepper=derive(PLATFORM_KEY, Purpose.PEPPER), now=0.0)
    worker = WorkerEntry(id=WorkerId("w-stub"), url=engine_url, state=WorkerState.READY)
    version = replace(
        VERSION, tokenizer_sha256=sha256, chat_template=TEMPLATE, workers=(worker,), max_model_len=context
    )
    route = Route(alias=Alias("toy"), shares=(Share(version=version.id, weight=10_000),))
    table = RoutingTable(number=3, made_at=0.0, routes=(route,), versions=(version,))
    tenants = (Tenant(id=key.tenant, name="Acme", plan=plan or Plan()), Tenant(id=its_key.tenant, name="Bob"))
    ring = KeyRing(keys=(key, its_key), tenants=tenants)
    files = {
        "platform.key": PLATFORM_KEY.hex().encode(),
        f"artifacts/blobs/{sha256}": blob,
        "run/gateway/table.json": msgspec.json.encode(table),
        "run/gateway/keys.json": msgspec.json.encode(ring),
        "run/gateway/packs.json": NO_PACKS,
    }
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    (root / "platform.key").chmod(0o600)
    return Home(root=root, key=secret, neighbour=neighbour)


class GatewayProcess:
    def __init__(self, home: Home, process: "subprocess.Popen[bytes]", url: str) -> None:
        self.home, self.process, self.url = home, process, url

    @property
    def log(self) -> str:
        return (self.home.root / f"gateway-{self.process.pid}.log").read_text()

    @property
    def metrics_url(self) -> str:
        return (self.home.root / f"run/metrics/{self.process.pid}").read_text().strip()

    @property
    def metrics(self) -> str:
        return httpx.get(self.metrics_url, trust_env=False).text

    def http(self) -> httpx.Client:
        headers = {"authorization": f"Bearer {self.home.key}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=10, trust_env=False)

    def signal(self) -> None:
        self.process.send_signal(signal.SIGTERM)


@contextmanager
def started(
    home: Home, listener: socket.socket | None = None, *, program: str = "penstock.cli", **settings: str
) -> Iterator[GatewayProcess]:
    """Start a gateway, wait until it says that it serves, and end it."""
    fds = () if listener is None else (listener.fileno(),)
    arguments = [] if listener is None else ["--fd", str(listener.fileno())]
    log = home.root / "gateway.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", program, "gateway", *arguments],
            env={**home.environment, **settings},
            stdout=out,
            stderr=out,
            pass_fds=fds,
        )
    log.rename(home.root / f"gateway-{process.pid}.log")
    try:
        yield GatewayProcess(home, process, _address(home, process, listener))
    finally:
        process.kill()
        process.wait()


def _address(home: Home, process: "subprocess.Popen[bytes]", listener: socket.socket | None) -> str:
    ready, deadline = home.root / f"run/gateway/{process.pid}.ready", time.monotonic() + patient(20)
    while not ready.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise AssertionError((home.root / f"gateway-{process.pid}.log").read_text())
        time.sleep(0.02)
    if listener is not None:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"
    return (home.root / "run/gateway.addr").read_text().strip()
