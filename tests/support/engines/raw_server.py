"""A TCP server that answers with bytes a test writes down: what no proper HTTP server sends."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

CLOSE = b"\x00close"
"""A step: close the connection."""


@dataclass
class RawServer:
    """What the server was sent, request by request, and how many connections it took."""

    url: str = ""
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0


@asynccontextmanager
async def raw_server(*answers: Sequence[bytes]) -> AsyncIterator[RawServer]:
    """Serve: the n-th request of all connections gets the n-th answer, written step by step."""
    seen = RawServer()
    left = list(answers)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.connections += 1
        try:
            while left:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                seen.requests.append(head + await reader.readexactly(length))
                for step in left.pop(0):
                    if step == CLOSE:
                        writer.close()
                        return
                    writer.write(step)
                    await writer.drain()
                    await asyncio.sleep(0.002)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        seen.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield seen
