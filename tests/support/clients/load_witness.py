"""A second client's view of the same run: a recording proxy with clocks and a reading of its own.

``python tests/support/clients/load_witness.py UPSTREAM LOG`` prints its port, passes every byte on at once, and
writes a line for each streamed answer: the times of the request and of each piece of text, and the reported usage. It
shares no code with ``loadtests`` and reads the wire in another way: by patterns over the raw bytes.
"""

import asyncio
import json
import re
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

TEXT = re.compile(rb'"content": ?"[^"]')
TOKENS = re.compile(rb'"completion_tokens": ?(\d+)')
LAST = b"data: [DONE]"


@dataclass
class Exchange:
    """One request and its answer, on the witness's own clock."""

    asked_at: float
    texts_at: list[float] = field(default_factory=list)
    tokens: int = 0
    rest: bytes = b""

    def take(self, data: bytes, now: float) -> bool:
        """Take what the target sent; say whether the stream is over."""
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            self.texts_at += [now] * len(TEXT.findall(line))
            self.tokens += sum(int(count) for count in TOKENS.findall(line))
        return any(LAST in line for line in lines)


async def witness(upstream: str, log: Path) -> None:
    parts = urlsplit(upstream)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(parts.hostname, parts.port)
        open_: list[Exchange] = []

        async def asks() -> None:
            while data := await reader.read(65_536):
                if data.startswith(b"POST"):
                    open_.append(Exchange(asked_at=time.monotonic()))
                back.write(data)
                await back.drain()

        async def answers() -> None:
            while data := await there.read(65_536):
                now = time.monotonic()
                writer.write(data)
                if open_ and open_[-1].take(data, now):
                    with log.open("a") as out:
                        out.write(json.dumps([open_[-1].asked_at, open_[-1].texts_at, now, open_[-1].tokens]) + "\n")
                    open_.clear()
                await writer.drain()

        with suppress(ConnectionError):
            await asyncio.wait(
                [asyncio.create_task(asks()), asyncio.create_task(answers())], return_when=asyncio.FIRST_COMPLETED
            )
        back.close()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=1024)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


@dataclass(frozen=True)
class Seen:
    """What the witness saw of one answer, in seconds."""

    ttft_s: float
    gaps_s: list[float]
    whole_s: float
    tokens: int


def seen(log: Path) -> Iterator[Seen]:
    for line in log.read_text().splitlines():
        asked_at, texts_at, ended_at, tokens = json.loads(line)
        gaps_s = [after - before for before, after in pairwise(texts_at)]
        yield Seen(texts_at[0] - asked_at, gaps_s, ended_at - asked_at, tokens)


if __name__ == "__main__":
    asyncio.run(witness(sys.argv[1], Path(sys.argv[2])))
