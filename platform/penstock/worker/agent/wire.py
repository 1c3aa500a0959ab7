"""The agent's small HTTP client: one call per connection. Tokens don't pass here."""

import asyncio
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from penstock.lateness.awake import timeout

MAX_HEAD_BYTES = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpCall:
    url: str
    method: str = "GET"
    headers: Mapping[str, str]
    body: bytes = b""
    timeout_s: float = 5.0
    tls: ssl.SSLContext | None = None
    """TLS settings of the connection; None for plain HTTP."""


async def send(call: HttpCall) -> HttpAnswer:
    """Raises ``OSError``, also for timeouts and malformed replies."""
    url = urlsplit(call.url)
    is_tls = url.scheme == "https"
    if call.tls is not None and not is_tls:
        raise ConnectionError(f"{url.netloc} is plain HTTP, and this process speaks to https:// alone")
    context = (call.tls or ssl.create_default_context()) if is_tls else None
    async with timeout(call.timeout_s):
        reader, writer = await asyncio.open_connection(url.hostname, url.port or (443 if is_tls else 80), ssl=context)
        try:
            writer.write(_request(call, url.path or "/", url.netloc))
            await writer.drain()
            return await _answer(reader)
        except (ValueError, IndexError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise ConnectionError(f"no HTTP answer from {url.netloc}") from error
        finally:
            writer.close()


def _request(call: HttpCall, path: str, host: str) -> bytes:
    head = [f"{call.method} {path} HTTP/1.1", f"host: {host}", "connection: close"]
    head += [f"{name}: {value}" for name, value in call.headers.items()]
    if call.body:
        head += ["content-type: application/json", f"content-length: {len(call.body)}"]
    return "\r\n".join((*head, "", "")).encode() + call.body


async def _answer(reader: asyncio.StreamReader) -> HttpAnswer:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    status = int(head[0].split(" ")[1])
    pairs = (line.partition(":") for line in head[1:] if line)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    if headers.get("transfer-encoding", "").lower() == "chunked":
        body = await _chunks(reader)
    elif "content-length" in headers:
        body = await reader.readexactly(int(headers["content-length"]))
    else:
        body = await reader.read()
    return HttpAnswer(status=status, headers=headers, body=body)


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    return body


def reserve(host: str, port: int) -> socket.socket:
    """Reserve a port until the socket is closed; 0 takes a free one.

    Bound without listening, with ``SO_REUSEADDR``: the child's own bind with that option succeeds, others fail.
    """
    kept = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    kept.bind((host, port))
    return kept
