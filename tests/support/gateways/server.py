"""A raw client of the real server on a real socket, and the loop that the gateway runs on."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import wraps

import uvloop

from penstock.gateway.calls.call import Call
from penstock.gateway.calls.relay import Reply
from tests.support.gateways.toy import Running


def on_uvloop(test: Callable[..., Coroutine[None, None, None]]) -> Callable[..., None]:
    """Run a test on the loop that the gateway runs on."""

    @wraps(test)
    def run(*args: object, **kwargs: object) -> None:
        uvloop.run(test(*args, **kwargs))

    return run


CHUNKED = [(b"content-type", b"text/event-stream")]


class Client:
    """A raw connection that reads responses one by one."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def to(cls, gateway: Running) -> "Client":
        return cls(*await asyncio.open_connection("127.0.0.1", gateway.port))

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def head(self) -> tuple[int, dict[str, str]]:
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        return int(lines[0].split()[1]), dict(line.split(": ", 1) for line in lines[1:] if line)

    async def response(self) -> tuple[int, dict[str, str], bytes]:
        status, headers = await self.head()
        if "content-length" in headers:
            return status, headers, await self.reader.readexactly(int(headers["content-length"]))
        body = b""
        while chunk := await self.chunk():
            body += chunk
        return status, headers, body

    async def chunk(self) -> bytes:
        size = int(await self.reader.readline(), 16)
        data = await self.reader.readexactly(size)
        await self.reader.readexactly(2)
        return data

    async def is_closed(self, within_s: float = 3.0) -> bool:
        async with asyncio.timeout(within_s):
            try:
                return await self.reader.read() == b""
            except ConnectionError:
                return True

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()


def code(body: bytes) -> str:
    return str(json.loads(body)["error"]["code"])


async def stream(call: Call, reply: Reply) -> None:
    reply.start(200, CHUNKED)
    for i in range(3):
        reply.write(b"data: %d\n\n" % i)
        await asyncio.sleep(0.01)
    reply.write(b"data: [DONE]\n\n")
    reply.finish()
