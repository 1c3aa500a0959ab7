"""Answers that come as fast as they can, beside a neighbour's tokens: slices, in turns."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from unittest.mock import Mock

import pytest
import uvloop

from penstock.connectors.http.client import HttpClient
from penstock.connectors.http.connection import Connection, WorkerExchange
from penstock.connectors.http.read_scheduler import BUSY_S, SLICE_BYTES, SMALL_BYTES, ReadScheduler
from tests.support.clock import ManualClock
from tests.support.patience import patient
from tests.unit.connectors.http.test_http_client import Taker

SIZE = 256 << 10
"""As much as one read takes."""
STREAMS = 64
LONGEST_S = 0.005
"""What the streams of one tenant may add to a neighbour's token."""
WORK_S = 0.0005
"""What passing a slice on costs."""


class Working(Taker):
    """A receiver to which bytes are work, as they are to the relay: so many CPU seconds for each."""

    def on_body(self, data: bytes) -> None:
        super().on_body(data)
        until = time.thread_time() + WORK_S * len(data) / SLICE_BYTES
        while time.thread_time() < until:
            pass


def fast(size: int, *, more: bytes = b"") -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size + bytes(range(256)) * (size // 256) + more


@asynccontextmanager
async def answering(answer: bytes) -> AsyncIterator[str]:
    """Serve this answer, all at once, to each request."""
    writers = set[asyncio.StreamWriter]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.add(writer)
        with suppress(ConnectionError):
            while await reader.read(1 << 16):
                writer.write(answer)

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        for writer in writers:
            writer.transport.abort()
        await asyncio.sleep(0.01)


class Turns:
    """CPU seconds of each turn of the running loop."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._is_on = True
        self._at = time.thread_time()
        self._look()

    def _look(self) -> None:
        now = time.thread_time()
        self.seconds.append(now - self._at)
        self._at = now
        if self._is_on:
            asyncio.get_running_loop().call_soon(self._look)

    def end(self) -> float:
        """Return the longest turn but one of a hundred."""
        self._is_on = False
        return sorted(self.seconds)[int(0.99 * len(self.seconds))]


def on_uvloop(test: Callable[[], object]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(test())  # type: ignore[arg-type]


def test_many_fast_streams_leave_turns_for_others() -> None:
    """While 64 large answers come at once, a turn of the loop takes what it may; each answer is whole."""

    async def run() -> None:
        async with answering(fast(SIZE)) as url:
            client = HttpClient(clock=time.monotonic)
            takers = [Working() for _ in range(STREAMS)]
            for taker in takers:
                await client.send(url, "/", [], b"x", taker)
            turns = Turns()
            async with asyncio.timeout(patient(60)):
                for taker in takers:
                    await taker.over.wait()
            assert turns.end() <= LONGEST_S
            assert {len(taker.taken) for taker in takers} == {SIZE}
            await client.close()

    on_uvloop(run)


async def test_a_large_answer_is_paused_and_goes_on() -> None:
    """A client that cannot take more stops the slices; every byte comes, in order, and the connection serves again."""
    async with answering(fast(SIZE)) as url:
        client = HttpClient(clock=time.monotonic)
        for _ in range(2):
            taker = Taker()
            exchange = await client.send(url, "/", [], b"x", taker)
            await taker.first.wait()
            exchange.pause()
            taken = len(taker.taken)
            await asyncio.sleep(0.02)
            assert len(taker.taken) == taken
            exchange.resume()
            assert await taker.end() is None
            assert taker.body == bytes(range(256)) * (SIZE // 256)
        assert client.idle(url) == 1
        await client.close()


async def test_an_aborted_answer_says_no_more() -> None:
    """Its waiting bytes are dropped with the connection."""
    async with answering(fast(SIZE)) as url:
        client, taker = HttpClient(clock=time.monotonic), Taker()
        exchange = await client.send(url, "/", [], b"x", taker)
        await taker.first.wait()
        exchange.abort()
        taken = len(taker.taken)
        await asyncio.sleep(0.05)
        assert (len(taker.taken), taker.ends) == (taken, [])
        await client.close()


async def test_what_follows_a_large_answer_is_nobodys() -> None:
    """Bytes behind an answer's end never become the next one's: the connection closes."""
    async with answering(fast(SIZE, more=bytes(2 * SLICE_BYTES))) as url:
        client, taker = HttpClient(clock=time.monotonic), Taker()
        await client.send(url, "/", [], b"x", taker)
        assert await taker.end() is None
        assert client.idle(url) == 0
        await client.close()


@pytest.mark.parametrize(("slice_s", "at_once"), [(0.0, 4), (BUSY_S / 2, 2), (BUSY_S, 1)])
async def test_a_turn_passes_the_slices_that_fit_its_time(slice_s: float, at_once: int, clock: ManualClock) -> None:
    """The socket is paused only if some are left, and read again after the last."""
    size, slices = 4 * SLICE_BYTES, list[int]()
    transport, receiver = Mock(is_closing=Mock(return_value=False)), Mock()

    def takes(data: bytes) -> None:
        slices.append(len(data))
        clock.advance(slice_s)

    receiver.on_body = takes
    connection = Connection(ReadScheduler(clock.monotonic), Mock(), Mock())
    connection.connection_made(transport)
    connection.run(WorkerExchange(receiver, b"x"))
    connection.data_received(f"HTTP/1.1 200 OK\r\ncontent-length: {2 * size}\r\n\r\n".encode())
    connection.data_received(bytes(size))
    assert len(slices) == at_once
    assert transport.pause_reading.called is (at_once < 4)
    for _ in range(8):
        clock.advance(BUSY_S)
        await asyncio.sleep(0)
    assert sum(slices) == size
    assert transport.resume_reading.call_count == transport.pause_reading.call_count


@pytest.mark.parametrize(
    ("size", "spent_s", "takes"),
    [
        (SMALL_BYTES, 10 * BUSY_S, True),
        (SMALL_BYTES + 1, 0.0, True),
        (SMALL_BYTES + 1, BUSY_S, False),
        (SLICE_BYTES, 0.0, True),
    ],
)
async def test_small_reads_never_wait(size: int, spent_s: float, takes: bool, clock: ManualClock) -> None:
    """A token is passed on at once; more of a turn is for those that came first, until the turn has read enough."""
    turns = ReadScheduler(clock.monotonic)
    assert turns.takes(SLICE_BYTES) is True
    clock.advance(spent_s)
    assert turns.takes(size) is takes
    await asyncio.sleep(0)
    assert turns.takes(SLICE_BYTES) is True, "the next turn of the loop"
