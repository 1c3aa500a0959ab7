"""The home workers of an adapter among its base's workers, and their credit in a pick. Pure.

Rendezvous hashing (Thaler and Ravishankar 1998) gives each adapter an order of the workers, the same in every gateway.
Its first two workers that are not busy are its homes. A worker busier than the idlest by more than the slack gets no
credit, and the next in the order becomes a home.

Trade-off: the second home loads the adapter only after the first has work.
"""

import heapq
from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import blake2b

from penstock.domain.ids import VersionId, WorkerId
from penstock.gateway.routing.scorers import ADAPTER, PLAIN, SLACK_TOKENS, Candidate

HOME_THAT_HOLDS, HOLDS = 1.0, 0.9
HOMES = (0.75, 0.7)
"""Credits of homes that have not loaded it yet: the first one loads it. The smallest credit outweighs the work of the
whole slack.
"""
MOST_RANKED = 4
"""Workers of an order that are kept: homes, and those that take their overflow."""
MOST_ORDERS = 4_096
"""Adapters of one base with a cached order; beyond that orders are computed again."""
NOBODY: Mapping[WorkerId, int] = {}


class Homes:
    __slots__ = ("_orders", "workers")

    def __init__(self, workers: Iterable[WorkerId] = ()) -> None:
        self.workers = tuple(workers)
        self._orders: dict[VersionId, dict[WorkerId, int]] = {}

    def of(self, adapter: VersionId) -> dict[WorkerId, int]:
        known = self._orders.get(adapter)
        if known is None:
            if len(self._orders) >= MOST_ORDERS:
                del self._orders[next(iter(self._orders))]
            known = self._orders[adapter] = ordered(adapter, self.workers)
        return known


def ordered(adapter: VersionId, workers: Collection[WorkerId]) -> dict[WorkerId, int]:
    start = blake2b(adapter.encode(), digest_size=8)

    def height(worker: WorkerId) -> bytes:
        digest = start.copy()
        digest.update(worker.encode())
        return digest.digest()

    return {worker: place for place, worker in enumerate(heapq.nlargest(MOST_RANKED, workers, key=height))}


def credited(
    scores: list[float], candidates: Sequence[Candidate], adapter: VersionId, order: Mapping[WorkerId, int]
) -> list[float]:
    most_work = min([one.work_tokens for one in candidates]) + SLACK_TOKENS
    unit = ADAPTER / (PLAIN + ADAPTER)
    first = second = MOST_RANKED
    at_first = at_second = 0
    for at, one in enumerate(candidates):
        if one.work_tokens > most_work:
            continue
        entry = one.entry
        if adapter in entry.adapters:
            scores[at] += HOLDS * unit
        place = order.get(entry.id, MOST_RANKED)
        if place < first:
            first, at_first, second, at_second = place, at, first, at_first
        elif place < second:
            second, at_second = place, at
    if first < MOST_RANKED:
        scores[at_first] += _of_home(adapter, candidates[at_first], HOMES[0]) * unit
    if second < MOST_RANKED:
        scores[at_second] += _of_home(adapter, candidates[at_second], HOMES[1]) * unit
    return scores


def _of_home(adapter: VersionId, home: Candidate, alone: float) -> float:
    return HOME_THAT_HOLDS - HOLDS if adapter in home.entry.adapters else alone
