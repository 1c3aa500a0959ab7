"""Meters of a gate's requests by name: running ones, and for a minute ended ones.

A gateway that lost an answer can query its usage.

Trade-off: a flood of short requests forgets earlier ones.
"""

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import msgspec

from penstock.domain.clock import Clock
from penstock.domain.ids import RequestId
from penstock.domain.serving.report import Used
from penstock.domain.serving.ticket import Ticket
from penstock.worker.gate.queueing.constants import LOOK_S, MINUTE_S, MOST_KNOWN
from penstock.worker.gate.queueing.fair_queue import in_engine
from penstock.worker.meter import Meter, current

MOST_ENDED = 16_384


class Meters:
    def __init__(self) -> None:
        self._meters: dict[RequestId, Meter] = {}
        self._ended: deque[tuple[float, RequestId, Meter]] = deque()
        self._awaited: dict[Meter, asyncio.Future[None]] = {}
        self._expected: dict[RequestId, asyncio.Future[None]] = {}

    def __len__(self) -> int:
        return len(self._meters)

    @contextmanager
    def metered(self, ticket: Ticket, clock: Clock) -> Iterator[Meter]:
        meter = self.open(ticket.request, in_engine(ticket.standing, ticket.weight))
        putting = current.set(meter)
        try:
            yield meter
        finally:
            current.reset(putting)
            self.close(ticket.request, meter, clock.monotonic())

    def open(self, request: RequestId, weight: float = 1.0) -> Meter:
        meter = self._meters[request] = Meter(weight)
        _resolve(self._expected.pop(request, None))
        return meter

    def close(self, request: RequestId, meter: Meter, now: float) -> None:
        meter.close()
        self._ended.append((now, request, meter))
        while self._ended[0][0] < now - MINUTE_S or len(self._ended) > MOST_ENDED:
            _, name, old = self._ended.popleft()
            if self._meters.get(name) is old:
                del self._meters[name]
        _resolve(self._awaited.pop(meter, None))

    async def used(self, requests: Sequence[RequestId], wait_s: float = 0.0) -> dict[RequestId, Used]:
        """Final for requests that end within ``wait_s``; unknown ones are left out."""
        if wait_s > 0.0:
            await self._until_here([name for name in requests if name not in self._meters], min(wait_s, LOOK_S))
        known = {name: meter for name in requests if (meter := self._meters.get(name)) is not None}
        running = [meter for meter in known.values() if not meter.is_over]
        if running and wait_s > 0.0:
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await asyncio.wait([self._end_of(meter) for meter in running])
        return {name: meter.used for name, meter in known.items()}

    async def _until_here(self, unknown: Sequence[RequestId], wait_s: float) -> None:
        """Answer for requests that were asked about before they arrived: their caller had left."""
        if not unknown:
            return
        loop = asyncio.get_running_loop()
        coming = [self._expected.setdefault(name, loop.create_future()) for name in unknown]
        await asyncio.wait(coming, timeout=wait_s)
        for name in unknown:
            self._expected.pop(name, None)

    def _end_of(self, meter: Meter) -> asyncio.Future[None]:
        awaited = self._awaited.get(meter)
        if awaited is None:
            awaited = self._awaited[meter] = asyncio.get_running_loop().create_future()
        return awaited


def _resolve(waiting: asyncio.Future[None] | None) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(None)


class UsageQuery(msgspec.Struct):
    """The answer waits up to ``wait_s`` for running requests."""

    requests: list[str]
    wait_s: float = 0.0


async def usage(meters: Meters, body: bytes) -> bytes:
    asked = msgspec.json.decode(body, type=UsageQuery)
    names = [RequestId(name) for name in asked.requests[:MOST_KNOWN]]
    return msgspec.json.encode(await meters.used(names, asked.wait_s))
