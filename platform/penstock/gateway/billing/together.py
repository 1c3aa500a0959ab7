"""Combines usage queries to one worker, so that a flood of disconnects costs the worker few queries.

Trade-off: the answer comes when the query's last request has ended, so a ledger row may be some tenths of a second
late.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field

from penstock.domain.fleet.table import WorkerEntry
from penstock.domain.ids import RequestId
from penstock.domain.serving.report import Used
from penstock.gateway.billing.asking import Asks

GATHER_S = 0.02
MOST = 512
"""Requests of one query; a gate accepts up to twice as many."""

Told = Mapping[RequestId, Used] | None
Spawn = Callable[[Coroutine[None, None, None]], object]


@dataclass(slots=True, eq=False)
class _Question:
    worker: WorkerEntry
    waiting: dict[RequestId, list[asyncio.Future[Told]]] = field(default_factory=dict)
    timer: asyncio.TimerHandle | None = None


class Together:
    """``spawn`` starts queries, since they outlive each bill; the times are those of ``Asks``."""

    def __init__(self, asks: Asks, spawn: Spawn, *, within_s: float, wait_s: float) -> None:
        self._asks, self._spawn = asks, spawn
        self._within_s, self._wait_s = within_s, wait_s
        self._next: dict[str, _Question] = {}

    async def ask(self, worker: WorkerEntry, request: RequestId) -> Told:
        loop = asyncio.get_running_loop()
        question = self._next.get(worker.url)
        if question is None:
            question = self._next[worker.url] = _Question(worker)
            question.timer = loop.call_later(GATHER_S, self._put, question)
        told: asyncio.Future[Told] = loop.create_future()
        question.waiting.setdefault(request, []).append(told)
        if len(question.waiting) >= MOST:
            self._put(question)
        return await told

    def _put(self, question: _Question) -> None:
        del self._next[question.worker.url]
        if question.timer is not None:
            question.timer.cancel()
        self._spawn(self._answered(question))

    async def _answered(self, question: _Question) -> None:
        told: Told = None
        try:
            told = await self._asks.ask(
                question.worker, list(question.waiting), within_s=self._within_s, wait_s=self._wait_s
            )
        finally:  # also where the process is going: nobody waits for an answer that will not come
            for one in (one for several in question.waiting.values() for one in several):
                if not one.done():
                    one.set_result(told)
