"""Names and addresses of a cluster on one machine's loopback: services that lead to ready pods, servers behind TLS."""

import asyncio
import gc
import socket
import ssl
import struct
import subprocess
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias

Backends = Callable[[], Sequence[tuple[str, int]]]
SSL_REQUEST = struct.pack("!ii", 8, 80877103)
"""What a client of Postgres says before its handshake: https://www.postgresql.org/docs/current/protocol-message-formats.html"""
_CHUNK = 64 << 10
ROUNDS = 3
BLOCKS, MARK = range(78, 127), 47000

Reader: TypeAlias = asyncio.StreamReader
Writer: TypeAlias = asyncio.StreamWriter


class Network:
    """Hands out addresses, keeps the hosts file, and runs what forwards connections, in a thread of its own."""

    def __init__(self, hosts: Path) -> None:
        self.hosts = hosts
        hosts.write_text("127.0.0.1 localhost\n")
        self._taken = _taken()
        self._block = self._taken.getsockname()[0].rpartition(".255.")[0]
        self._pods, self._names, self._turns = count(10), count(10), count()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="network")
        self._servers: list[asyncio.Server] = []
        self._given: list[str] = []
        self._writers: set[Writer] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
        for address in self._given:
            _loopback("del", address)
        self._taken.close()

    def pod_address(self) -> str:
        """Return an address that no pod has had.

        It is one of the loopback device's own, so that a pod's connection to itself comes from its own address.
        """
        address = f"{self._block}.1.{next(self._pods)}"
        _loopback("add", address)
        self._given.append(address)
        return address

    def name(self, *names: str) -> str:
        address = f"{self._block}.0.{next(self._names)}"
        with self.hosts.open("a") as file:
            file.write(f"{address} {' '.join(names)}\n")
        return address

    def service(self, address: str, port: int, backends: Backends) -> None:
        """Forward connections to one of the backends in turn; without one they are refused."""

        async def forward(reader: Reader, writer: Writer) -> None:
            found = backends()
            if found:
                await _join(reader, writer, asyncio.open_connection(*found[next(self._turns) % len(found)]))
            writer.close()

        self._listen(address, port, forward)

    def behind_tls(self, address: str, port: int, unix: Path, context: ssl.SSLContext, *, asks: bool = False) -> None:
        """Serve a server of a Unix socket over TLS; if a client ``asks`` first, it is told that it may."""

        async def forward(reader: Reader, writer: Writer) -> None:
            if asks:
                if await reader.readexactly(len(SSL_REQUEST)) != SSL_REQUEST:
                    writer.close()  # nobody comes in without TLS
                    return
                writer.write(b"S")
            await writer.start_tls(context)
            await _join(reader, writer, asyncio.open_unix_connection(unix))

        self._listen(address, port, forward)

    def _listen(self, address: str, port: int, serve: Callable[[Reader, Writer], Awaitable[None]]) -> None:
        async def quietly(reader: Reader, writer: Writer) -> None:
            try:
                with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                    await serve(reader, writer)
            finally:
                writer.transport.abort()

        def accepted(reader: Reader, writer: Writer) -> None:
            self._writers.add(writer)
            task = self._loop.create_task(quietly(reader, writer))
            task.add_done_callback(lambda _: self._writers.discard(writer))

        starting = asyncio.start_server(accepted, address, port)
        self._servers.append(asyncio.run_coroutine_threadsafe(starting, self._loop).result(10))

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        for _ in range(ROUNDS):  # what was just being accepted has begun by the next round
            mine = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in mine:
                task.cancel()
            await asyncio.gather(*mine, return_exceptions=True)
            await asyncio.sleep(0.05)
        for writer in self._writers:  # of connections whose turn never came
            writer.transport.abort()
        await asyncio.sleep(0.05)
        gc.collect()


def _loopback(what: str, address: str) -> None:
    subprocess.run(["ip", "address", what, f"{address}/32", "dev", "lo"], capture_output=True, check=False)


def _taken() -> socket.socket:
    """Return a socket that holds a block of loopback addresses that no other cluster of this machine has."""
    for block in BLOCKS:
        with suppress(OSError):
            return socket.create_server((f"127.{block}.255.1", MARK))
    raise AssertionError("too many clusters on this machine")


async def _join(reader: Reader, writer: Writer, opening: Awaitable[tuple[Reader, Writer]]) -> None:
    """Carry bytes both ways until either side ends."""
    other_reader, other_writer = await opening
    ways = (_carry(reader, other_writer), _carry(other_reader, writer))
    try:
        await asyncio.gather(*ways)
    finally:
        other_writer.close()
        writer.close()


async def _carry(reader: Reader, writer: Writer) -> None:
    with suppress(OSError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
    with suppress(OSError, RuntimeError, NotImplementedError):
        if writer.can_write_eof():
            writer.write_eof()
        else:
            writer.close()
