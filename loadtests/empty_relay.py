"""The platform's layout with nothing in it: what processes, sockets and threads alone add to a model's call.

A caller's bytes go to a relay, which hands them to an engine's process as they are; there a bare call runs in a thread,
and its answer goes back the same way. Nothing is parsed, checked, counted or batched: no platform of these processes
adds less. ``python -m loadtests.empty_relay relay PORT`` and ``… engine MODEL`` are the two; each prints its port.
"""

import asyncio
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import uvloop

from loadtests import classic
from penstock.worker.engines.torch import memory

LENGTH = 4
ANSWER = bytes(400)
"""About as much as a head and a few numbers."""
Work = Callable[[bytes], None]


async def engine(model: str) -> None:
    """Answer each piece with the same bytes, when the model has computed it."""
    memory.keep()
    handler, loop = classic.loaded(model), asyncio.get_running_loop()
    call = classic.bare(handler)
    with ThreadPoolExecutor(1) as threads:

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while size := await _size(reader):
                await loop.run_in_executor(threads, call, await reader.readexactly(size))
                writer.write(ANSWER)

        await _listen(serve)


async def relay(port: int) -> None:
    """Hand on what comes, over a connection of its own to the engine."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_engine, to_engine = await asyncio.open_connection("127.0.0.1", port)
        while size := await _size(reader):
            to_engine.write(size.to_bytes(LENGTH) + await reader.readexactly(size))
            writer.write(await from_engine.readexactly(len(ANSWER)))
        to_engine.close()

    await _listen(serve)


async def _size(reader: asyncio.StreamReader) -> int:
    """Return the number of bytes that come; 0 if the caller has left."""
    try:
        return int.from_bytes(await reader.readexactly(LENGTH))
    except asyncio.IncompleteReadError:
        return 0


async def _listen(serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], object]) -> None:
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()


@contextmanager
def relayed(model: str) -> Iterator[Work]:
    """Run both processes; yield how a caller asks, and waits for its answer."""
    with ExitStack() as stack:
        inner = stack.enter_context(_process("engine", model))
        outer = stack.enter_context(_process("relay", str(inner)))
        wire = stack.enter_context(socket.create_connection(("127.0.0.1", outer)))
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def ask(given: bytes) -> None:
            wire.sendall(len(given).to_bytes(LENGTH) + given)
            left = len(ANSWER)
            while left:
                left -= len(wire.recv(left))

        yield ask


@contextmanager
def _process(*words: str) -> Iterator[int]:
    command = [sys.executable, "-m", "loadtests.empty_relay", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None  # noqa: S101  piped above
            yield int(process.stdout.readline())
        finally:
            process.terminate()


if __name__ == "__main__":
    role, where = sys.argv[1:]
    uvloop.run(engine(where) if role == "engine" else relay(int(where)))
