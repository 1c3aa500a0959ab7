"""A target for load tests, run as a program: an OpenAI-like stream at a steady pace, from one loop that may stall.

``python tests/support/clients/load_target.py JSON`` prints its port. The stall is real: the loop sleeps, so nothing is
read or written meanwhile. Its start and end go to the log by the monotonic clock, which all processes share.
"""

import asyncio
import json
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Habits:
    """How the target behaves; seconds count from its first request."""

    log: str
    first_s: float = 0.2
    gap_s: float = 0.02
    stall_at_s: float = 0.0
    stall_s: float = 0.0
    refuse_above: int = 1_000_000
    """Requests at once; more are told to come back."""
    says_when: bool = True
    """Whether a refusal names the time to come back."""


class Target:
    def __init__(self, habits: Habits) -> None:
        self.habits, self.running, self.began = habits, 0, False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = re.search(rb"(?i)content-length: (\d+)", head)
                body = await reader.readexactly(int(length[1])) if length else b""
                if head.startswith(b"GET"):
                    writer.write(_whole("200 OK", {"data": [{"id": "toy", "max_model_len": 4096}]}))
                else:
                    self._begin()
                    await self._answer(json.loads(body), writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def _begin(self) -> None:
        if not self.began and self.habits.stall_s:
            asyncio.get_running_loop().call_later(self.habits.stall_at_s, self._stall)
        self.began = True

    def _stall(self) -> None:
        from_s = time.monotonic()
        time.sleep(self.habits.stall_s)
        Path(self.habits.log).write_text(json.dumps([from_s, time.monotonic()]))

    async def _answer(self, body: dict[str, int], writer: asyncio.StreamWriter) -> None:
        if self.running >= self.habits.refuse_above:
            wait = "retry-after: 2\r\n" if self.habits.says_when else ""
            writer.write(_whole("503 Busy", {"error": {"code": "overloaded"}}, wait))
            return
        self.running += 1
        try:
            await self._stream(body["max_tokens"], writer)
        finally:
            self.running -= 1

    async def _stream(self, tokens: int, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + self.habits.first_s
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        for _ in range(tokens):
            await asyncio.sleep(due - loop.time())
            writer.write(_chunk({"choices": [{"delta": {"content": "word "}}]}))
            await writer.drain()
            due += self.habits.gap_s
        writer.write(_chunk({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": tokens}}))
        writer.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")


def _whole(status: str, body: object, headers: str = "") -> bytes:
    data = json.dumps(body).encode()
    return f"HTTP/1.1 {status}\r\n{headers}content-length: {len(data)}\r\n\r\n".encode() + data


def _chunk(event: object) -> bytes:
    data = f"data: {json.dumps(event)}\n\n".encode()
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


async def main() -> None:
    target = Target(Habits(**json.loads(sys.argv[1])))
    server = await asyncio.start_server(target.serve, "127.0.0.1", 0, backlog=1024)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
