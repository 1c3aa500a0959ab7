"""Queries workers twice a second for the token counts of unstreamed answers, which pass the gateway only when complete.

So limits and budgets can top up or end them like streams (B4, B5). A worker that answers slowly is queried again in the
next round.
"""

import asyncio
from collections import defaultdict
from collections.abc import Mapping

from penstock.domain.fleet.table import WorkerEntry
from penstock.domain.ids import RequestId, WorkerId
from penstock.gateway.billing.asking import Asks
from penstock.gateway.calls.call import Admitted
from penstock.gateway.calls.lease import Lease

WITHIN_S = 0.4


class LiveCounts:
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
