"""Serves read-only pages, such as metrics, on a listener of its own; one connection per request.

The listener is for operators only: any client that reaches it may read every page.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from http import HTTPStatus

LIVE, READY, REGION, METRICS = "/healthz", "/readyz", "/readyz/region", "/metrics"
"""Paths of health probes and metrics."""
OPENMETRICS = f"{METRICS}/openmetrics"
"""The same in the format with exemplars; a client that accepts it, as Prometheus does, gets it."""
_OPENMETRICS_TYPE = "application/openmetrics-text"
MAX_HEAD_BYTES = 64 << 10
Page = Callable[[], Awaitable[tuple[int, str, bytes]]]
"""Returns status, content type, body."""


async def serve(host: str, port: int, pages: Mapping[str, Page]) -> asyncio.Server:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError, ValueError, IndexError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                async with asyncio.timeout(10.0):
                    head = await reader.readuntil(b"\r\n\r\n")
                    method, path = head.decode("latin-1").split(" ")[:2]
                    writer.write(await _page(method, _wanted(path.partition("?")[0], head, pages), pages))
                    await writer.drain()
        finally:
            writer.close()  # also where the process ends meanwhile

    return await asyncio.start_server(handle, host, port, limit=MAX_HEAD_BYTES)


def _wanted(path: str, head: bytes, pages: Mapping[str, Page]) -> str:
    lines = head.decode("latin-1").lower().split("\r\n")[1:]
    takes = any(line.startswith("accept:") and _OPENMETRICS_TYPE in line for line in lines)
    return OPENMETRICS if path == METRICS and takes and OPENMETRICS in pages else path


async def _page(method: str, path: str, pages: Mapping[str, Page]) -> bytes:
    status, kind, body = 404, "text/plain", b"not found\n"
    if method not in ("GET", "HEAD"):
        status, body = 405, b"only GET\n"
    elif path in pages:
        status, kind, body = await pages[path]()
    head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}"
    return f"{head}\r\nconnection: close\r\n\r\n".encode() + (b"" if method == "HEAD" else body)
