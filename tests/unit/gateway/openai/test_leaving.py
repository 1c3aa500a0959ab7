"""The real server on a real socket: clients that leave or read slowly, and draining."""

import asyncio

import pytest

from penstock.gateway.calls.call import Call
from penstock.gateway.calls.relay import Reply
from penstock.intake.limits import Limits
from tests.support.gateways.server import CHUNKED, Client, code, on_uvloop
from tests.support.gateways.toy import REQUEST, head, running
from tests.support.patience import patient


@pytest.mark.parametrize("ahead", [b"", head() + REQUEST], ids=["alone", "with a request behind"])
@on_uvloop
async def test_a_client_that_leaves_is_noticed_at_once(ahead: bytes) -> None:
    """The producer is told within milliseconds, also when the client had pipelined more."""
    gone, waiting = asyncio.Event(), asyncio.Event()

    async def wait(call: Call, reply: Reply) -> None:
        reply.watch(on_gone=gone.set, on_pause=lambda: None, on_resume=lambda: None)
        waiting.set()
        await gone.wait()
        assert reply.gone
        reply.write(b"nobody reads this")

    async with running(wait) as gateway:
        client = await Client.to(gateway)
        client.send(head() + REQUEST + ahead)
        await waiting.wait()
        client.writer.transport.abort()
        async with asyncio.timeout(0.5):
            await gone.wait()
        assert gateway.toy.seen.crashed == []


@on_uvloop
async def test_leaving_before_anybody_watches_is_told_too() -> None:
    """A client that is gone when the watch begins is reported all the same."""
    gone, left = asyncio.Event(), asyncio.Event()

    async def late(call: Call, reply: Reply) -> None:
        await left.wait()
        reply.watch(on_gone=gone.set, on_pause=lambda: None, on_resume=lambda: None)
        async with asyncio.timeout(patient(1)):
            await gone.wait()

    async with running(late) as gateway:
        client = await Client.to(gateway)
        client.send(head() + REQUEST)
        await asyncio.sleep(0.05)
        client.writer.transport.abort()
        await asyncio.sleep(0.05)
        left.set()
        async with asyncio.timeout(patient(1)):
            await gone.wait()


@on_uvloop
async def test_a_slow_reader_pauses_the_producer_and_lets_it_go_on() -> None:
    """The producer hears of a full buffer, of room again, and every byte arrives."""
    told: list[str] = []

    async def flood(call: Call, reply: Reply) -> None:
        room = asyncio.Event()
        room.set()

        def pause() -> None:
            told.append("pause")
            room.clear()

        def resume() -> None:
            told.append("resume")
            room.set()

        reply.watch(on_gone=lambda: told.append("gone"), on_pause=pause, on_resume=resume)
        reply.start(200, CHUNKED)
        for _ in range(300):
            await room.wait()
            reply.write(b"x" * 50_000)
            await asyncio.sleep(0)
        reply.finish()

    async with running(flood, Limits(write_buffer_bytes=64_000)) as gateway:
        client = await Client.to(gateway)
        client.send(head() + REQUEST)
        await asyncio.sleep(0.3)
        assert told == ["pause"]
        assert len((await client.response())[2]) == 300 * 50_000
        assert told[:2] == ["pause", "resume"]
        assert "gone" not in told
        await client.close()


@on_uvloop
async def test_a_reader_that_stops_after_the_answer_keeps_no_connection() -> None:
    """Nothing stays open for who never takes the rest of a complete answer."""

    async def large(call: Call, reply: Reply) -> None:
        reply.start(200, CHUNKED)
        reply.write(b"x" * 30_000_000)
        reply.finish()

    async with running(large, Limits(keep_alive_s=0.1, unread_s=0.2)) as gateway:
        client = await Client.to(gateway)
        client.send(head() + REQUEST)
        assert (await client.head())[0] == 200
        async with asyncio.timeout(patient(10.0)):
            while gateway.server.server_state.connections:  # noqa: ASYNC110  it has no event for it
                await asyncio.sleep(0.05)
        await client.close()


@on_uvloop
async def test_a_reader_can_be_dropped() -> None:
    """Aborting closes the connection at once and tells nobody twice."""
    told: list[str] = []

    async def drop(call: Call, reply: Reply) -> None:
        reply.watch(on_gone=lambda: told.append("gone"), on_pause=lambda: None, on_resume=lambda: None)
        reply.start(200, CHUNKED)
        reply.write(b"a")
        await asyncio.sleep(0.02)
        reply.abort()
        await asyncio.sleep(0.02)

    async with running(drop) as gateway:
        client = await Client.to(gateway)
        client.send(head() + REQUEST)
        await client.head()
        assert await client.chunk() == b"a"
        assert await client.is_closed() or told
        assert told == []
        await client.close()


@on_uvloop
async def test_draining_lets_streams_end_and_closes_what_is_idle() -> None:
    """After the signal: no new connection, the running stream to its end, idle connections after a moment."""
    go = asyncio.Event()

    async def held(call: Call, reply: Reply) -> None:
        reply.start(200, CHUNKED)
        reply.write(b"first")
        await go.wait()
        reply.write(b"last")
        reply.finish()

    async with running(held, Limits(drain_linger_s=0.4)) as gateway:
        busy, idle = await Client.to(gateway), await Client.to(gateway)
        busy.send(head() + REQUEST)
        await busy.head()
        assert await busy.chunk() == b"first"
        gateway.server.handle_exit(15, None)
        await asyncio.sleep(0.25)
        with pytest.raises(ConnectionError):
            await Client.to(gateway)
        assert await idle.is_closed()
        assert not gateway.served.done()
        go.set()
        assert await busy.chunk() == b"last"
        assert await busy.chunk() == b""
        assert await busy.is_closed()
        await asyncio.wait_for(gateway.served, 2)
        for client in (busy, idle):
            await client.close()


@on_uvloop
async def test_a_request_that_was_on_the_wire_is_answered_while_draining() -> None:
    """A kept connection may be used once more in the moment of lingering, and is told that it was the last time."""
    async with running(limits=Limits(drain_linger_s=1.0)) as gateway:
        client = await Client.to(gateway)
        client.send(head() + REQUEST)
        assert (await client.response())[0] == 200
        gateway.server.handle_exit(15, None)
        await asyncio.sleep(0.2)
        client.send(head() + REQUEST)
        status, headers, _ = await client.response()
        assert (status, headers["connection"]) == (200, "close")
        assert await client.is_closed()
        await client.close()


@on_uvloop
async def test_the_grace_ends_and_streams_are_told() -> None:
    """What has not ended by then is cut off with an error in band, not with silence."""

    async def endless(call: Call, reply: Reply) -> None:
        reply.start(200, CHUNKED)
        reply.write(b"data: 1\n\n")
        await asyncio.Event().wait()

    async with running(endless, Limits(drain_grace_s=0.2, drain_linger_s=0.1)) as gateway:
        client = await Client.to(gateway)
        body = REQUEST.replace(b"{", b'{"stream":true,', 1)
        client.send(head(length=len(body)) + body)
        await client.head()
        assert await client.chunk() == b"data: 1\n\n"
        gateway.server.handle_exit(15, None)
        last = await client.chunk()
        assert code(last.removeprefix(b"data: ")) == "draining"
        assert await client.chunk() == b""
        await client.close()


@on_uvloop
async def test_a_second_signal_ends_it_at_once() -> None:
    """Nobody has to wait for the grace."""

    async def endless(call: Call, reply: Reply) -> None:
        reply.start(200, CHUNKED)
        reply.write(b"data: 1\n\n")
        await asyncio.Event().wait()

    async with running(endless) as gateway:
        client = await Client.to(gateway)
        client.send(head() + REQUEST)
        await client.head()
        gateway.server.handle_exit(15, None)
        gateway.server.handle_exit(15, None)
        await asyncio.wait_for(gateway.served, 2)
        await client.close()
