"""Refusals of workers that hold for a while: of an adapter for all, of a full queue for its tenant. Pure.

* An adapter can't be loaded there, or answers wrongly: its base and other adapters answer there as ever.
* A tenant's own queue at a version is full: others' requests, and the tenant's for other versions, are not concerned.
  The word holds for requests that are no smaller and no more patient than a refused one, and no longer than the first
  of them was told to wait: callers that come when told must meet the worker.

Trade-off: room that comes sooner is found after that time; only its end, or a heartbeat that lists the adapter, tells.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from penstock.domain.fleet.table import WorkerEntry
from penstock.domain.ids import TenantId, VersionId, WorkerId
from penstock.gateway.calls.demand import ANY, Demand

MOST_REMEMBERED = 4_096
"""Pairs of version and tenant; the one that was refused least lately goes first."""


class _Refusal(NamedTuple):
    until: float
    refused: Demand

    def joined(self, other: Demand) -> "_Refusal":
        """Return the word for the smaller and the more patient of both requests."""
        both = (self.refused.deadline_s, other.deadline_s)
        size = min(self.refused.body_bytes, other.body_bytes)
        return _Refusal(self.until, Demand(other.tenant, size, max(both) if all(both) else 0.0))


class TurnedAway:
    def __init__(self) -> None:
        self._words: dict[tuple[VersionId, TenantId], dict[WorkerId, _Refusal]] = {}

    def __len__(self) -> int:
        return len(self._words)

    def note(self, worker: WorkerId, version: VersionId, now: float, for_s: float, refused: Demand = ANY) -> None:
        key = (version, refused.tenant)
        words = self._words.pop(key, {})
        known = words.get(worker)
        is_in_force = known is not None and known.until > now
        words[worker] = known.joined(refused) if known is not None and is_in_force else _Refusal(now + for_s, refused)
        self._words[key] = words
        if len(self._words) > MOST_REMEMBERED:
            del self._words[next(iter(self._words))]

    def at(
        self, version: VersionId, serving: Sequence[WorkerEntry], now: float, demand: Demand = ANY
    ) -> frozenset[WorkerId]:
        """Return the workers that refuse this request now; one that reports the adapter does not."""
        words = self._words.get((version, demand.tenant))
        if not words:
            return frozenset()
        by_name = not demand.tenant
        return frozenset(
            one.id
            for one in serving
            if (word := words.get(one.id)) is not None
            and word.until > now
            and demand.is_like(word.refused)
            and not (by_name and version in one.adapters)
        )

    def wait_s(self, version: VersionId, workers: Collection[WorkerId], now: float, demand: Demand = ANY) -> float:
        words = self._words.get((version, demand.tenant), {})
        return max(0.0, min((words[one].until for one in workers if one in words), default=now) - now)

    def keep(self, versions: Collection[str]) -> None:
        for key in [one for one in self._words if one[0] not in versions]:
            del self._words[key]
