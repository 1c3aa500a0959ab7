"""The agent's little HTTP, client and server against each other and against rude peers."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import closing

import pytest

from penstock.telemetry import pages
from penstock.worker.agent import wire

Peer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def page() -> tuple[int, str, bytes]:
    return 200, "text/plain", b"hello"


async def get(port: int, path: str, method: str = "GET", timeout_s: float = 2.0) -> wire.HttpAnswer:
    return await wire.send(
        wire.HttpCall(url=f"http://127.0.0.1:{port}{path}", method=method, headers={"x-a": "b"}, timeout_s=timeout_s)
    )


@pytest.mark.parametrize(
    ("method", "path", "status", "body"),
    [("GET", "/page", 200, b"hello"), ("GET", "/page?x=1", 200, b"hello"), ("GET", "/", 404, b"not found\n")],
)
async def test_pages_are_served_by_path(method: str, path: str, status: int, body: bytes) -> None:
    """A page answers at its path alone."""
    async with await pages.serve("127.0.0.1", 0, {"/page": page}) as server:
        answer = await get(server.sockets[0].getsockname()[1], path, method)
    assert (answer.status, answer.body) == (status, body)


async def test_pages_are_read_only() -> None:
    """What is not a reading method is refused."""
    async with await pages.serve("127.0.0.1", 0, {"/page": page}) as server:
        assert (await get(server.sockets[0].getsockname()[1], "/page", "DELETE")).status == 405


def test_the_end_closes_who_has_asked_nothing_yet() -> None:
    """A connection that waits for its request's head ends with the loop; it was left to the garbage collector."""

    async def end_beside_a_silent_caller() -> socket.socket:
        server = await pages.serve("127.0.0.1", 0, {"/page": page})
        silent = await asyncio.to_thread(socket.create_connection, server.sockets[0].getsockname(), 5.0)
        await asyncio.sleep(0.2)  # it is taken, and its head is waited for
        server.close()
        return silent

    with closing(asyncio.run(end_beside_a_silent_caller())) as silent:
        assert silent.recv(1) == b""


async def answering(raw: bytes, *, timeout_s: float = 2.0) -> wire.HttpAnswer:
    """Call a peer that answers with these bytes and closes, or, without bytes, stays silent."""
    is_done = asyncio.Event()

    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if not raw:
            await reader.read()
        writer.write(raw)
        writer.close()
        is_done.set()

    async with await asyncio.start_server(peer, "127.0.0.1", 0) as server:
        try:
            return await get(server.sockets[0].getsockname()[1], "/", timeout_s=timeout_s)
        finally:
            await is_done.wait()


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nbo\r\n2;x=1\r\ndy\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nbody",
    ],
    ids=["length", "chunked", "until the end"],
)
async def test_bodies_are_read_however_they_are_framed(raw: bytes) -> None:
    """A body is whole whether its length is told, it comes in chunks, or it ends with the connection."""
    answer = await answering(raw)
    assert (answer.status, answer.body) == (200, b"body")


@pytest.mark.parametrize(
    "raw",
    [
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nbody",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    ],
)
async def test_answers_that_make_no_sense_are_connection_errors(raw: bytes) -> None:
    """A broken answer raises what a broken connection does."""
    with pytest.raises(OSError, match="no HTTP answer"):
        await answering(raw)


async def test_silence_ends_in_a_timeout() -> None:
    """A peer that never answers costs the time-out and no more."""
    with pytest.raises(TimeoutError):
        await answering(b"", timeout_s=0.05)


async def test_a_reserved_port_is_for_the_child_alone() -> None:
    """While the port is kept, a server may listen on it, and nobody is given it by chance."""
    kept = wire.reserve("127.0.0.1", 0)
    port = kept.getsockname()[1]
    try:
        async with await pages.serve("127.0.0.1", port, {"/page": page}):
            assert (await get(port, "/page")).body == b"hello"
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
    finally:
        kept.close()
