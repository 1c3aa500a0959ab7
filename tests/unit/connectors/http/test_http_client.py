import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

from penstock.connectors.http.client import HttpClient, PoolLimits
from tests.support.engines.raw_server import CLOSE, raw_server
from tests.support.engines.stub import Behaviour, StubEngine
from tests.support.gateways.dispatch import until
from tests.support.patience import patient


@dataclass
class Taker:
    """A receiver: everything it was told."""

    status: int = 0
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    taken: bytearray = field(default_factory=bytearray)
    pieces: int = 0
    ends: list[BaseException | None] = field(default_factory=list)
    over: asyncio.Event = field(default_factory=asyncio.Event)
    first: asyncio.Event = field(default_factory=asyncio.Event)

    def on_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.status, self.headers = status, headers

    def on_body(self, data: bytes) -> None:
        self.taken += data
        self.pieces += 1
        self.first.set()

    def on_end(self, error: BaseException | None) -> None:
        self.ends.append(error)
        self.over.set()

    @property
    def body(self) -> bytes:
        """What came so far."""
        return bytes(self.taken)

    async def end(self) -> BaseException | None:
        """Wait for the end; return the error, if any."""
        async with asyncio.timeout(patient(5)):
            await self.over.wait()
        return self.ends[0]


CHAT = "/v1/chat/completions"
PLAIN = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
BODY = b'{"stream":false}'


@pytest.fixture
async def client() -> AsyncIterator[HttpClient]:
    """Yield a client with short limits."""
    made = HttpClient(clock=time.monotonic, limits=PoolLimits(connect_timeout_s=0.5))
    yield made
    await made.close()


async def ask(client: HttpClient, url: str, body: bytes = BODY) -> Taker:
    """Send one request and wait for its end."""
    taker = Taker()
    await client.send(url, CHAT, [("content-type", "application/json")], body, taker)
    await taker.end()
    return taker


async def test_request_is_valid_http(client: HttpClient) -> None:
    """Path, host, length, own headers and body go out as one well-formed request."""
    async with raw_server([PLAIN]) as server:
        await ask(client, server.url)
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"POST /v1/chat/completions HTTP/1.1"
    assert b"host: " + server.url.removeprefix("http://").encode() in lines
    assert b"content-length: 16" in lines
    assert b"content-type: application/json" in lines
    assert body == BODY


async def test_keeps_connections(client: HttpClient) -> None:
    """Requests one after another share one connection."""
    async with StubEngine() as stub:
        for _ in range(5):
            assert (await ask(client, stub.url)).status == 200
        assert stub.stats.connections == 1
        assert client.idle(stub.url) == 1


async def test_parallel_requests_get_their_own_answers(client: HttpClient) -> None:
    """Answers of parallel requests don't mix."""
    async with StubEngine() as stub:
        bodies = [b'{"model":"m%d","max_tokens":%d}' % (n, n) for n in range(1, 20)]
        takers = await asyncio.gather(*(ask(client, stub.url, body) for body in bodies))
        for n, taker in enumerate(takers, start=1):
            assert b'"model":"m%d"' % n in taker.body
            assert b'"completion_tokens":%d}' % n in taker.body.replace(b',"prompt_tokens_details":null', b"")


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        ([b"HTTP/1.1 200 OK\r\ncontent-le", b"ngth: 5\r\n\r\nhe", b"llo"], b"hello"),
        (
            [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r", b"\n2\r\nde\r\n0\r\n", b"\r\n"],
            b"abcde",
        ),
        ([b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n", PLAIN], b"ok"),
        ([b"HTTP/1.1 200 OK\r\n\r\nuntil ", b"closed", CLOSE], b"until closed"),
        ([b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"], b""),
        ([b"HTTP/1.1 204 No Content\r\n\r\n"], b""),
    ],
    ids=["length", "chunked", "interim", "until close", "empty", "no content"],
)
async def test_reads_every_framing(client: HttpClient, answer: list[bytes], body: bytes) -> None:
    """Bodies are read however they are framed and cut."""
    async with raw_server(answer) as server:
        taker = await ask(client, server.url)
    assert taker.ends == [None]
    assert taker.body == body
    assert taker.status in {200, 204}


@pytest.mark.parametrize(
    "answer",
    [
        [b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok"],
        [PLAIN + b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nstale"],
        [PLAIN + b"garbage"],
        [PLAIN, b"garbage afterwards"],
    ],
    ids=["close", "second answer", "garbage", "garbage later"],
)
async def test_does_not_reuse_a_doubtful_connection(client: HttpClient, answer: list[bytes]) -> None:
    """A connection that said more than it was asked is never used again: its words can't reach another caller."""
    async with raw_server(answer, [b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nfresh"]) as server:
        first = await ask(client, server.url)
        await until(lambda: client.idle(server.url) == 0)
        second = await ask(client, server.url)
        assert (first.body, first.ends) == (b"ok", [None])
        assert second.body == b"fresh"
        assert server.connections == 2


async def test_old_connections_are_not_used(client: HttpClient) -> None:
    """A connection that rested too long is closed instead of used."""
    now = [0.0]
    aging = HttpClient(clock=lambda: now[0], limits=PoolLimits(max_idle_s=4.0, max_age_s=10.0))
    async with StubEngine() as stub:
        for at in (0.0, 3.0, 6.0, 9.0, 12.0, 30.0):
            now[0] = at
            await ask(aging, stub.url)
        assert stub.stats.connections == 3
        await aging.close()


async def test_idle_connections_are_bounded() -> None:
    """No more than the limit wait for work."""
    bounded = HttpClient(clock=time.monotonic, limits=PoolLimits(max_idle=3))
    async with StubEngine() as stub:
        await asyncio.gather(*(ask(bounded, stub.url) for _ in range(10)))
        assert bounded.idle(stub.url) == 3
        await bounded.close()
        assert bounded.idle(stub.url) == 0


async def test_stale_connection_is_retried_once(client: HttpClient) -> None:
    """A request that meets a connection just closed is sent again on a fresh one."""
    async with raw_server([PLAIN], [CLOSE], [PLAIN]) as server:
        await ask(client, server.url)
        again = await ask(client, server.url)
        assert (again.status, again.ends) == (200, [None])
        assert server.requests[1] == server.requests[2]


async def test_fresh_connection_is_not_retried(client: HttpClient) -> None:
    """A fresh connection that breaks before an answer is the caller's business: the request may have started."""
    async with raw_server([CLOSE], [PLAIN]) as server:
        taker = await ask(client, server.url)
        assert isinstance(taker.ends[0], ConnectionError)
        assert len(server.requests) == 1


async def test_retry_of_a_stale_connection_ends_when_the_worker_is_gone(client: HttpClient) -> None:
    """Where no fresh connection can be had either, the receiver hears of it."""
    stub = StubEngine()
    await stub.start()
    await ask(client, stub.url)
    stub.behaviour = Behaviour(mode="reset")
    assert stub._server is not None
    stub._server.close()
    taker = await ask(client, stub.url)
    assert isinstance(taker.ends[0], OSError)
    await stub.stop()


@pytest.mark.parametrize(
    "answer",
    [
        [b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf", CLOSE],
        [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n", CLOSE],
        [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\nZZ\r\n"],
        [b"SSH-2.0-OpenSSH_9\r\n"],
        [b"HTTP/1.1 200 OK\r\ncontent-le", CLOSE],
    ],
    ids=["length", "chunked", "bad chunk", "not http", "half a head"],
)
async def test_broken_answers_are_told(client: HttpClient, answer: list[bytes]) -> None:
    """An answer that breaks off or is no HTTP ends with an error, once."""
    async with raw_server(answer) as server:
        taker = await ask(client, server.url)
    assert len(taker.ends) == 1
    assert taker.ends[0] is not None


async def test_refused_connection_raises(client: HttpClient) -> None:
    """Where nobody listens, sending raises: nothing was sent."""
    stub = StubEngine()
    await stub.start()
    await stub.stop()
    with pytest.raises(ConnectionRefusedError):
        await client.send(stub.url, CHAT, [], BODY, Taker())


async def test_a_connection_that_nobody_answered_is_tried_once_more(
    client: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lost packet costs one caller a second, and nothing else."""
    loop = asyncio.get_running_loop()
    connect: Any = loop.create_connection
    tries: list[object] = []

    async def first_is_lost(*args: object, **kwargs: object) -> object:
        tries.append(args)
        if len(tries) == 1:
            await asyncio.sleep(30)
        return await connect(*args, **kwargs)

    monkeypatch.setattr(loop, "create_connection", first_is_lost)
    async with StubEngine() as stub:
        assert (await ask(client, stub.url)).status == 200
    assert len(tries) == 2


async def test_a_pause_of_this_process_is_no_timeout() -> None:
    """A loop that stands still for longer than a connection may take still gets it."""
    hasty = HttpClient(clock=time.monotonic, limits=PoolLimits(connect_timeout_s=0.1))
    async with StubEngine() as stub:
        asking = asyncio.create_task(ask(hasty, stub.url))
        await asyncio.sleep(0)
        time.sleep(0.5)  # noqa: ASYNC251  that is the pause
        assert (await asking).status == 200
        assert stub.stats.connections == 1
    await hasty.close()


async def test_connect_timeout_raises() -> None:
    """A worker that does not accept in time is given up."""
    hasty = HttpClient(clock=time.monotonic, limits=PoolLimits(connect_timeout_s=0.05))
    with socket.socket() as deaf, ExitStack() as waiting:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        for _ in range(4):  # fill the backlog: further connections are left hanging
            full = waiting.enter_context(socket.socket())
            full.setblocking(False)
            full.connect_ex(deaf.getsockname())
        with pytest.raises(TimeoutError):
            await hasty.send(f"http://127.0.0.1:{deaf.getsockname()[1]}", CHAT, [], BODY, Taker())


async def test_abort_frees_the_engine(client: HttpClient) -> None:
    """An abort closes the connection: the engine sees it, the receiver hears nothing more."""
    async with StubEngine(Behaviour(step_ms=5)) as stub:
        taker = Taker()
        exchange = await client.send(stub.url, CHAT, [], b'{"stream":true,"max_tokens":1000}', taker)
        await taker.first.wait()
        exchange.abort()
        await until(lambda: stub.stats.running == 0)
        assert stub.stats.aborted == 1
        assert taker.ends == []
        assert client.idle(stub.url) == 0


async def test_pause_holds_the_worker_back(client: HttpClient) -> None:
    """While paused nothing is read, so the worker's writes stop at full buffers; resuming loses nothing."""
    async with StubEngine() as stub:
        taker = Taker()
        count = 60_000
        exchange = await client.send(stub.url, CHAT, [], b'{"stream":true,"max_tokens":%d}' % count, taker)
        await taker.first.wait()
        exchange.pause()
        pieces = -1
        while pieces != stub.stats.tokens:
            pieces = stub.stats.tokens
            await asyncio.sleep(0.1)
        assert stub.stats.tokens < count
        read = len(taker.taken)
        await asyncio.sleep(0.05)
        assert len(taker.taken) == read
        exchange.resume()
        async with asyncio.timeout(patient(30)):
            assert await taker.over.wait()
        assert taker.body.count(b'"content":" the"') == count


async def test_receiver_that_raises_ends_its_own_exchange(client: HttpClient) -> None:
    """A bug in one receiver breaks its exchange, not the client."""

    class Broken(Taker):
        def on_body(self, data: bytes) -> None:
            raise RuntimeError("bug")

    async with StubEngine() as stub:
        broken = Broken()
        await client.send(stub.url, CHAT, [], BODY, broken)
        assert isinstance(await broken.end(), RuntimeError)
        assert (await ask(client, stub.url)).status == 200


async def test_headers_can_not_smuggle(client: HttpClient) -> None:
    """A line break in a header's value is refused before anything is sent."""
    async with StubEngine() as stub:
        with pytest.raises(ValueError, match="line break"):
            await client.send(stub.url, CHAT, [("x-request-id", "a\r\nx-evil: 1")], BODY, Taker())
        assert stub.stats.connections == 0


async def test_exchange_outlives_its_connection_harmlessly(client: HttpClient) -> None:
    """An exchange that is over can't pause or abort the connection's next request."""
    async with StubEngine() as stub:
        taker = Taker()
        old = await client.send(stub.url, CHAT, [], BODY, taker)
        await taker.end()
        following = Taker()
        await client.send(stub.url, CHAT, [], BODY, following)
        old.pause()
        old.abort()
        assert await following.end() is None
