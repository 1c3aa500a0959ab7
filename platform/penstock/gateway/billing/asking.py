"""Asks a worker's gate for the usage of requests that are running, or that ended without a report.

A missing answer means no usage: the contract allows it, and it is no error.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from penstock.domain.clock import Clock
from penstock.domain.fleet.table import WorkerEntry
from penstock.domain.ids import RequestId, WorkerId
from penstock.domain.serving.report import Used
from penstock.domain.serving.ticket import HEADER, binding_of, of_platform, seal
from penstock.domain.serving.transport import Workers
from penstock.gateway.answers import collecting
from penstock.gateway.calls.call import Admitted
from penstock.gateway.calls.lease import Lease
from penstock.lateness.awake import timeout

PATH = "/penstock/usage"
_OK = 200


class Asks(Protocol):
    async def ask(
        self, worker: WorkerEntry, requests: Sequence[RequestId], *, within_s: float, wait_s: float = 0.0
    ) -> Mapping[RequestId, Used] | None:
        """Return the usage, final of requests that end within ``wait_s``, without unknown ones. None if the worker does
        not answer within ``within_s``.
        """
        ...


class UsageClient:
    def __init__(self, workers: Workers, ticket_key: Callable[[WorkerId], bytes], clock: Clock) -> None:
        self._workers, self._key_of, self._clock = workers, ticket_key, clock

    async def ask(
        self, worker: WorkerEntry, requests: Sequence[RequestId], *, within_s: float, wait_s: float = 0.0
    ) -> Mapping[RequestId, Used] | None:
        body = msgspec.json.encode({"requests": requests, "wait_s": wait_s})
        headers = [("content-type", "application/json"), (HEADER, self._ticket(worker.id, body, within_s))]
        try:
            async with timeout(within_s):
                answer = await collecting.ask(self._workers, worker.url, PATH, headers, body, within_s=within_s)
            return msgspec.json.decode(answer.body, type=dict[RequestId, Used]) if answer.status == _OK else None
        except (OSError, msgspec.MsgspecError):  # a time-out is an OSError as well
            return None

    def _ticket(self, worker: WorkerId, body: bytes, seconds: float) -> str:
        now = self._clock.now()
        ticket = of_platform(now + seconds)
        return seal(ticket, self._key_of(worker), binding_of(PATH, body), now)


WITHIN_S = 0.4


class LiveCounts:
    """Token counts of running unstreamed answers, twice a second, so that limits can end them like streams (B4, B5)."""

    def __init__(self, running: Mapping[Lease, Admitted], asks: Asks) -> None:
        self._running, self._asks = running, asks

    async def look(self) -> None:
        workers: dict[WorkerId, WorkerEntry] = {}
        by_worker: dict[WorkerId, dict[RequestId, Lease]] = defaultdict(dict)
        for lease, call in self._running.items():
            if not call.request.stream and call.attempts.worker is not None:
                workers[call.attempts.worker.id] = call.attempts.worker
                by_worker[call.attempts.worker.id][call.request.id] = lease
        await asyncio.gather(*(self._look_at(workers[worker], leases) for worker, leases in by_worker.items()))

    async def _look_at(self, worker: WorkerEntry, leases: Mapping[RequestId, Lease]) -> None:
        told = await self._asks.ask(worker, list(leases), within_s=WITHIN_S)
        for request, used in (told or {}).items():
            lease = leases.get(request)
            if lease is not None and (call := self._running.get(lease)) is not None:
                lease.delivered = max(lease.delivered, min(used.output_tokens, call.cost.output_tokens))
