"""What a role may ask of the controller's port, and how slowly, over real TLS."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from penstock.control.api.app import refusal
from penstock.domain.clock import SystemClock
from penstock.intake.held import Intake
from penstock.intake.limits import Limits
from penstock.intake.server import EdgeServer, configure
from penstock.supervision.listening import bind
from penstock.tls import heads, listener
from penstock.tls.identity import CONTROLLER_API, Role
from penstock.tls.mutual import Mutual
from tests.support.tls.certificates import Issuer
from tests.support.tls.processes import attacker, get

pytestmark = pytest.mark.integration


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer 200 to whatever is let through."""
    del receive
    if scope["path"] == "/slow":
        await asyncio.sleep(4 * heads.HEAD_S)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


class OurServer(EdgeServer):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def ours() -> uvicorn.Server:
    """Return the server of the controller's API."""
    limits = Limits(header_timeout_s=0.2, drain_grace_s=0.1, drain_linger_s=0.0)
    return OurServer(configure(app, limits, Intake(), answer=refusal, ids=lambda: ""))


def theirs() -> uvicorn.Server:
    """Return a server as vLLM starts it, with the bound that the worker adds."""
    config = uvicorn.Config(app, port=0, log_config=None, lifespan="off")
    config.load()
    config.http_protocol_class = heads.timed(config.http_protocol_class)
    return uvicorn.Server(config)


@contextmanager
def listening(issuer: Issuer, made: Callable[[], uvicorn.Server] = ours) -> Iterator[str]:
    """Serve under mutual TLS; yield the address."""
    server = made()
    config = server.config
    if not config.loaded:
        config.load()
    listener.guard(config, Mutual(issuer.mounted(Role.CONTROLLER), Role.CONTROLLER, SystemClock()), CONTROLLER_API)
    bound = bind("127.0.0.1", 0)
    bound.listen()
    thread = Thread(target=lambda: asyncio.run(server.serve(sockets=[bound])))
    thread.start()
    try:
        yield f"https://127.0.0.1:{bound.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        bound.close()


def test_a_role_asks_for_its_own_routes_alone(tmp_path: Path) -> None:
    """A worker's certificate opens no route of the operators', whatever key comes with it, nor theirs a worker's."""
    issuer = Issuer(tmp_path)
    asked = ("/internal/workers/heartbeat", "/admin/v1/keys", "/openapi.json", "/internalx", "//internal/x", "/readyz")
    with listening(issuer) as url:
        found = {
            role: [get(url + path, attacker(issuer, role, issuer.issued(role))).status_code for path in asked]
            for role in (Role.WORKER, Role.OPERATOR)
        }
        refused = get(f"{url}/admin/v1/keys", attacker(issuer, "again", issuer.issued(Role.WORKER)))
    assert found[Role.WORKER] == [200, 403, 403, 403, 403, 200]
    assert found[Role.OPERATOR] == [403, 200, 200, 200, 200, 200]
    assert refused.json()["error"]["code"] == "wrong_role"
    assert "spiffe://penstock/worker may not ask a controller for this" in refused.text


@pytest.mark.parametrize("made", [ours, theirs])
@pytest.mark.parametrize("said", [b"", b"GET /admin/v1/keys HTTP/1.1\r\nhost: x\r\nx-slow:"])
def test_a_head_has_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: bytes, made: Callable[[], uvicorn.Server]
) -> None:
    """A connection without an end of its head is closed, and an answer may take longer than a head."""
    monkeypatch.setattr(heads, "HEAD_S", 0.2)
    issuer = Issuer(tmp_path)
    context = attacker(issuer, "operator", issuer.issued(Role.OPERATOR))
    with listening(issuer, made) as url:
        port = int(url.rpartition(":")[2])
        with (
            socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
            context.wrap_socket(plain) as slow,
        ):
            slow.sendall(said)
            with suppress(ConnectionResetError, ssl.SSLEOFError):
                told = slow.recv(4096)
                assert told == b"" or told.startswith(b"HTTP/1.1 408 ")
        assert get(f"{url}/slow", context).status_code == 200
