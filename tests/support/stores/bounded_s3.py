"""Program: S3 (moto) behind a link of bounded bandwidth, which all connections share.

    python -m tests.support.stores.bounded_s3 BYTES_PER_S

Prints S3's own address, by which the store is filled, and the link's. Each line on its input is answered with the bytes
that went over the link so far.
"""

import asyncio
import sys
from contextlib import suppress
from urllib.parse import urlsplit

from tests.support.lines import say
from tests.support.stores.s3_server import s3_server

CHUNK_BYTES = 16 << 10
"""Small beside a second's bytes, so that connections take turns."""


class Link:
    """Lets bytes through at a rate, first come first served."""

    def __init__(self, bytes_per_s: float) -> None:
        self._bytes_per_s, self._free_at = bytes_per_s, 0.0
        self.sent = 0

    async def pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        while data := await reader.read(CHUNK_BYTES):
            self._free_at = max(self._free_at, loop.time()) + len(data) / self._bytes_per_s
            await asyncio.sleep(self._free_at - loop.time())
            self.sent += len(data)
            writer.write(data)
            await writer.drain()
        writer.close()


async def _unbounded(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(CHUNK_BYTES):
        writer.write(data)
        await writer.drain()
    writer.close()


async def run(store: str, bytes_per_s: float) -> None:
    link, origin = Link(bytes_per_s), urlsplit(store)

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            from_store, to_store = await asyncio.open_connection(origin.hostname, origin.port)
            await asyncio.gather(_unbounded(reader, to_store), link.pass_on(from_store, writer))

    server = await asyncio.start_server(meet, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    say(f"{store} http://127.0.0.1:{port}")
    while await asyncio.to_thread(sys.stdin.readline):
        say(link.sent)


if __name__ == "__main__":
    with s3_server() as address:
        asyncio.run(run(address, float(sys.argv[1])))
