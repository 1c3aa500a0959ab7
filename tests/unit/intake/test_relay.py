"""The relay's clients if the server before it takes no more connections."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager

import pytest

from penstock.intake import relay as relaying
from penstock.intake.held import Intake
from penstock.intake.limits import Limits
from penstock.intake.relay import Relay
from tests.support.patience import patient


@asynccontextmanager
async def relay() -> AsyncIterator[tuple[Relay, int]]:
    """Run a relay before a server that accepts nothing, whose queue of connections is full."""
    made = Relay(Limits(header_timeout_s=0.1), Intake())
    with ExitStack() as sockets:
        server, *queued = [sockets.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(2)]
        server.bind(f"\0{made.server_name}")
        server.listen(0)
        for one in queued:
            one.connect(f"\0{made.server_name}")
        try:
            yield made, await made.start("127.0.0.1", 0)
        finally:
            made.close()


async def ends(port: int) -> bool:
    """Send a first byte; tell whether the connection ends without one of the server's."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"P")
    try:
        return not await reader.read(1)
    except ConnectionResetError:
        return True
    finally:
        writer.close()


async def test_a_client_that_the_server_never_takes_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """After its last try the relay goes no further: it has no connection to speak on, and no name."""
    joined: list[relaying.Client] = []
    monkeypatch.setattr(relaying, "JOIN_TRIES", 3)
    monkeypatch.setattr(relaying.Client, "joined", lambda client, _: joined.append(client))
    async with relay() as (_, port), asyncio.timeout(patient(5)):
        assert await ends(port)
        assert joined == []


async def test_a_client_that_was_sent_away_is_tried_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tries end with its time, and it never has a name."""
    monkeypatch.setattr(relaying, "JOIN_TRIES", 1 << 60)
    async with relay() as (made, port), asyncio.timeout(patient(5)):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"P")
        while not made._joining:  # noqa: ASYNC110  the relay has no event for it
            await asyncio.sleep(0.005)
        while made._joining:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        writer.close()
        assert made._by_name == {}
