"""Takes a worker's answer and remembers it."""

import asyncio
from dataclasses import dataclass, field

from tests.support.patience import patient


@dataclass
class Taker:
    """A receiver: everything it was told."""

    status: int = 0
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    taken: bytearray = field(default_factory=bytearray)
    pieces: int = 0
    ends: list[BaseException | None] = field(default_factory=list)
    over: asyncio.Event = field(default_factory=asyncio.Event)
    first: asyncio.Event = field(default_factory=asyncio.Event)

    def on_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.status, self.headers = status, headers

    def on_body(self, data: bytes) -> None:
        self.taken += data
        self.pieces += 1
        self.first.set()

    def on_end(self, error: BaseException | None) -> None:
        self.ends.append(error)
        self.over.set()

    @property
    def body(self) -> bytes:
        """What came so far."""
        return bytes(self.taken)

    async def end(self) -> BaseException | None:
        """Wait for the end; return the error, if any."""
        async with asyncio.timeout(patient(5)):
            await self.over.wait()
        return self.ends[0]
