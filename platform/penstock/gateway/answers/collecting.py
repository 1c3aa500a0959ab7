"""Sends a small request to a worker and collects the whole answer."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.domain.serving.transport import Workers
from penstock.lateness.awake import timeout

MOST_BYTES = 4 << 20
"""Bytes after which an answer is cut off."""


@dataclass(frozen=True, slots=True)
class Collected:
    status: int
    body: bytes


class Unreachable(ConnectionError):
    """The worker accepted no connection."""


async def ask(
    workers: Workers, url: str, path: str, headers: Sequence[tuple[str, str]], body: bytes, *, within_s: float
) -> Collected:
    """Return the whole answer; raise ``Unreachable``, or another ``OSError`` if late or broken off.

    ``within_s`` are awake seconds from the moment at which the request is sent.
    """
    collector = _Collector()
    try:
        exchange = await workers.send(url, path, headers, body, collector)
    except OSError as error:
        raise Unreachable from error
    try:
        async with timeout(within_s):
            return await collector.answer
    finally:
        if not collector.is_over:
            exchange.abort()


class _Collector:
    __slots__ = ("_pieces", "_size", "_status", "answer", "is_over")

    def __init__(self) -> None:
        self.answer: asyncio.Future[Collected] = asyncio.get_running_loop().create_future()
        self.is_over = False
        self._status, self._size = 0, 0
        self._pieces: list[bytes] = []

    def on_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        del headers
        self._status = status

    def on_body(self, data: bytes) -> None:
        data = data[: MOST_BYTES - self._size]
        self._size += len(data)
        self._pieces.append(data)

    def on_end(self, error: BaseException | None) -> None:
        self.is_over = True
        if self.answer.done():
            return
        if error is not None:
            self.answer.set_exception(ConnectionError("the worker broke off"))
        else:
            self.answer.set_result(Collected(self._status, b"".join(self._pieces)))
