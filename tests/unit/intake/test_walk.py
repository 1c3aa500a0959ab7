"""Every route and method of every listener against endless bodies, slow ones, unread answers and silence.

The routes are read from the running applications and from gRPC's descriptors: a new one needs no line here.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from penstock.control.api.app import bounded, refusal
from penstock.domain.tenancy.tenant import Role
from penstock.gateway.app.openapi import document
from penstock.gateway.oip.grpc.messages import POOL, SERVICE
from penstock.gateway.oip.grpc.server import HEALTH, V1, V1ALPHA
from penstock.intake.held import Intake
from penstock.intake.limits import Limits
from penstock.intake.server import EdgeServer, configure
from penstock.supervision.listening import bind
from tests.support.clients import http2
from tests.support.clients.http2 import Http2
from tests.support.clock import ManualClock
from tests.support.controllers.in_memory import Room
from tests.support.gateways.oip_grpc import site
from tests.support.gateways.server import on_uvloop
from tests.support.gateways.toy import SECRET, running
from tests.support.patience import patient

pytestmark = pytest.mark.filterwarnings("ignore:Protobuf gencode:UserWarning")
SHORT = Limits(
    header_timeout_s=0.5, body_timeout_s=0.5, keep_alive_s=0.5, unread_s=0.5, drain_grace_s=0.1, drain_linger_s=0.0
)
"""The listeners' times, so that a walk takes seconds."""
ENDS_S = 6.0
"""A body's time, its margin of 2 s, a refused body's 2 s, sweeps."""
MOST_TAKEN = 12 << 20
"""What an endless body may send before its connection ends: of a refused one 8 MB are thrown away."""
Route = tuple[str, str]
WITHOUT_FAULT = (b"", b"2", b"4")
"""First digits of the statuses; no answer where there was none to give."""


def routes(described: dict[str, Any]) -> list[Route]:
    """Return each method and path that an application serves, with something in the place of its parameters."""
    return [
        (method.upper(), "/".join("x" if "{" in part else part for part in path.split("/")))
        for path, operations in described["paths"].items()
        for method in operations.keys() & {"get", "post", "put", "delete", "patch"}
    ]


class OurServer(EdgeServer):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def controller(room: Room) -> AsyncIterator[int]:
    """Run the operators' API as its process does."""
    intake, listener = Intake(connections=SHORT.connections), bind("127.0.0.1", 0)
    server = OurServer(configure(bounded(room.control, SHORT, intake), SHORT, intake, answer=refusal, ids=lambda: ""))
    served = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started:  # noqa: ASYNC110  uvicorn has no event for it
        await asyncio.sleep(0.01)
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        await served


async def send(port: int, route: Route, key: str, attack: str) -> tuple[int, bytes]:
    """Attack a route; return the bytes that were taken, and the answer until the connection's end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    method, path = route
    told = f"{method} {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\n"
    length = {"endless": "transfer-encoding: chunked", "slow": "content-length: 1000"}.get(attack, "x: y")
    taken, answer = 0, asyncio.create_task(reader.read())
    try:
        if attack != "silent":
            writer.write(f"{told}{length}\r\n\r\n".encode())
        while not answer.done():
            if attack == "endless":
                writer.write(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
                await writer.drain()
                taken += 0x10000
            else:
                writer.write(b" " if attack == "slow" else b"")
                await asyncio.sleep(0.1)
            await asyncio.sleep(0)
        return taken, await answer
    except ConnectionError:
        return taken, b""
    finally:
        answer.cancel()
        await asyncio.gather(answer, return_exceptions=True)
        writer.transport.abort()


async def walked(port: int, found: list[Route], key: str, attack: str) -> None:
    """Attack all routes at once; each must end in time, within bytes, by an answer that is no fault of ours."""

    async def one(route: Route) -> None:
        async with asyncio.timeout(patient(ENDS_S)):
            taken, answer = await send(port, route, key, attack)
        assert taken <= MOST_TAKEN, route
        assert answer[9:10] in WITHOUT_FAULT or answer[9:12] == b"503", (route, answer[:60])
        assert attack != "slow" or answer, route  # a silent connection ends without a word, as may one that never ends

    async with asyncio.TaskGroup() as attacks:
        for route in found:
            attacks.create_task(one(route))


async def beside(ask: Callable[[], Awaitable[None]], attack: Awaitable[None]) -> None:
    """Run an attack; a neighbour is served all the time."""
    task, asked = asyncio.ensure_future(attack), 0
    while not task.done():
        async with asyncio.timeout(patient(2.0)):
            await ask()
        asked += 1
        await asyncio.sleep(0.1)
    await task
    assert asked > 0


@pytest.mark.parametrize("attack", ["endless", "slow", "silent"])
@pytest.mark.parametrize("has_key", [True, False])
@on_uvloop
async def test_no_route_of_the_gateway_is_held(attack: str, has_key: bool) -> None:
    """Every method and path of the OpenAPI document, with a key and without, all at once."""
    async with running(limits=SHORT) as gateway, httpx.AsyncClient() as http:

        async def ask() -> None:
            assert (await http.get(f"{gateway.url}/healthz")).status_code == 200

        await beside(ask, walked(gateway.port, routes(document()), SECRET if has_key else "psk_no", attack))
        assert gateway.toy.seen.crashed == []


@pytest.mark.parametrize("attack", ["endless", "slow", "silent"])
@pytest.mark.parametrize("has_key", [True, False])
@on_uvloop
async def test_no_route_of_the_operators_is_held(attack: str, has_key: bool) -> None:
    """Every method and path of the controller's application: with an operator's key and without."""
    room = Room(ManualClock())
    key = await room.key(Role.ADMIN) if has_key else "psk_no"
    async with controller(room) as port, httpx.AsyncClient() as http:

        async def ask() -> None:
            assert (await http.get(f"http://127.0.0.1:{port}/healthz")).status_code == 200

        await beside(ask, walked(port, routes(room.app.openapi()), key, attack))


METHODS = [
    *[f"/{SERVICE}/{method.name}" for method in POOL.FindServiceByName(SERVICE).methods],
    f"/{HEALTH}/Check",
    f"/{HEALTH}/Watch",
    *[f"/{one}/ServerReflectionInfo" for one in (V1, V1ALPHA)],
]


async def rpc(address: str, method: str, key: str, attack: str) -> None:
    """Attack a method over HTTP/2 by hand; the server ends the call or the connection in time."""
    window = 20 if attack == "unread" else 65_535
    async with await Http2.to(address, window=window) as client, asyncio.timeout(patient(ENDS_S)):
        if attack == "silent":
            await client.closed.wait()
            return
        client.send(http2.call(1, method, key))
        if attack == "endless":
            taken = await client.message(1, 1 << 30, 64 << 20)
            assert taken <= MOST_TAKEN
        elif attack == "slow":
            await client.message(1, 1000, 1)
        else:
            client.send(http2.frame(http2.DATA, http2.END_STREAM, 1, bytes(5)))
        await client.until_ended(1)


@pytest.mark.parametrize("attack", ["endless", "slow", "unread", "silent"])
@pytest.mark.parametrize("has_key", [True, False])
async def test_no_method_of_grpc_is_held(attack: str, has_key: bool) -> None:
    """Every method of the services' descriptors; health's watch without a key ends with its connection's time."""
    limits = replace(SHORT, body_bytes=1 << 20)
    async with site(limits=limits) as at, asyncio.TaskGroup() as attacks:
        for method in METHODS:
            is_open_ended = has_key and (method.endswith("/Watch") or "Reflection" in method)
            if not (is_open_ended and attack in {"slow", "unread"}):
                attacks.create_task(rpc(at.address, method, SECRET if has_key else "", attack))
