"""Asks a worker's gate what requests took: of those that run, and of those whose answer did not tell.

A worker that does not answer in time has said nothing: that is a part of the contract here, and no error.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from penstock.domain.clock import Clock
from penstock.domain.fleet.table import WorkerEntry
from penstock.domain.ids import RequestId, WorkerId
from penstock.domain.serving.ticket import HEADER, binding_of, of_platform, seal
from penstock.domain.serving.used import Used

PATH = "/penstock/usage"
_OK = 200


class Receiver(Protocol):
    """Who takes a worker's answer as it comes."""

    def on_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Status line and headers."""
        ...

    def on_body(self, data: bytes) -> None:
        """A piece of the body."""
        ...

    def on_end(self, error: BaseException | None) -> None:
        """Complete (None) or broken off."""
        ...


class Exchange(Protocol):
    """A question under way."""

    def abort(self) -> None:
        """Close the connection; no callback follows."""
        ...


class Workers(Protocol):
    """The way to workers."""

    async def send(
        self, url: str, path: str, headers: Sequence[tuple[str, str]], body: bytes, receiver: Receiver
    ) -> Exchange:
        """POST, return when it is on its way; ``OSError`` where no connection can be had."""
        ...


class Asks(Protocol):
    """Who knows what requests took."""

    async def ask(
        self, worker: WorkerEntry, requests: Sequence[RequestId], *, within_s: float, wait_s: float = 0.0
    ) -> Mapping[RequestId, Used] | None:
        """Return what these took so far, or all of it where they end within ``wait_s``; who never came is left out.

        None where the worker does not say it within ``within_s``.
        """
        ...


class Asking:
    """Implements ``Asks`` over HTTP."""

    def __init__(self, workers: Workers, ticket_key: Callable[[WorkerId], bytes], clock: Clock) -> None:
        self._workers, self._key_of, self._clock = workers, ticket_key, clock

    async def ask(
        self, worker: WorkerEntry, requests: Sequence[RequestId], *, within_s: float, wait_s: float = 0.0
    ) -> Mapping[RequestId, Used] | None:
        """Ask."""
        body = msgspec.json.encode({"requests": requests, "wait_s": wait_s})
        headers = [("content-type", "application/json"), (HEADER, self._ticket(worker.id, body, within_s))]
        answer = _Answer()
        exchange: Exchange | None = None
        try:
            async with asyncio.timeout(within_s):
                exchange = await self._workers.send(worker.url, PATH, headers, body, answer)
                return msgspec.json.decode(await answer.body, type=dict[RequestId, Used])
        except (OSError, msgspec.MsgspecError):  # a time-out is an OSError as well
            if exchange is not None and not answer.body.done():
                exchange.abort()
            return None

    def _ticket(self, worker: WorkerId, body: bytes, seconds: float) -> str:
        now = self._clock.now()
        ticket = of_platform(now + seconds)
        return seal(ticket, self._key_of(worker), binding_of(PATH, body), now)


class _Answer:
    """Collects one answer's body; an error status is a broken one."""

    def __init__(self) -> None:
        self.body: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._status = 0
        self._pieces: list[bytes] = []

    def on_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        del headers
        self._status = status

    def on_body(self, data: bytes) -> None:
        self._pieces.append(data)

    def on_end(self, error: BaseException | None) -> None:
        if self.body.done():
            return
        if error is None and self._status == _OK:
            self.body.set_result(b"".join(self._pieces))
        else:
            self.body.set_exception(ConnectionError("the worker does not tell"))
