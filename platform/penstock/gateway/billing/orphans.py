"""Queries the usage of a dead gateway's requests, which their workers still have for a minute.

The worker of a request was not recorded, so all workers of its version are asked; the highest output counts, up to the
request's own bound.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from penstock.domain.fleet.table import VersionEntry, WorkerEntry
from penstock.domain.ids import RequestId, VersionId
from penstock.domain.serving.report import Used
from penstock.domain.tenancy.ledger import Opening
from penstock.domain.tokens import Usage
from penstock.gateway.billing import bill
from penstock.gateway.billing.asking import Asks

TABLE_WITHIN_S = 2.0
LOOK_S = 0.05
WAIT_S, WITHIN_S = 1.0, 2.0


class Orphans:
    def __init__(self, versions: Callable[[], Iterable[VersionEntry]], asks: Asks) -> None:
        self._versions, self._asks = versions, asks

    async def took(self, left: Iterable[Opening]) -> Mapping[RequestId, Usage]:
        by_version: dict[VersionId, list[RequestId]] = defaultdict(list)
        for opening in left:
            by_version[opening.version].append(opening.request)
        if not by_version:
            return {}
        found: dict[RequestId, Used] = {}
        for told in await asyncio.gather(*(self._ask(*one) for one in await self._questions(by_version))):
            for request, used in told.items():
                if request not in found or found[request].output_tokens <= used.output_tokens:
                    found[request] = used
        most = {opening.request: opening for opening in left}
        return {request: _usage(used, most[request]) for request, used in found.items() if request in most}

    async def _questions(
        self, by_version: Mapping[VersionId, Sequence[RequestId]]
    ) -> list[tuple[WorkerEntry, Sequence[RequestId]]]:
        for _ in range(int(TABLE_WITHIN_S / LOOK_S)):
            if versions := list(self._versions()):
                return [(worker, by_version[v.id]) for v in versions if v.id in by_version for worker in v.workers]
            await asyncio.sleep(LOOK_S)
        return []

    async def _ask(self, worker: WorkerEntry, requests: Sequence[RequestId]) -> Mapping[RequestId, Used]:
        return await self._asks.ask(worker, requests, within_s=WITHIN_S, wait_s=WAIT_S) or {}


def _usage(used: Used, most: Opening) -> Usage:
    usage = Usage(
        prompt_tokens=used.prompt_tokens,
        output_tokens=used.output_tokens,
        cached_tokens=used.cached_tokens,
        exact=used.is_final,
    )
    return bill.capped(usage, prompt=most.prompt_tokens, output=most.output_tokens)
