"""Remembered refusals of workers: of an adapter for all tenants, of a full queue for its tenant. Pure.

* An adapter can't be loaded at a worker, or answers wrongly there.
* A tenant's own queue at a version is full. The refusal applies to requests that are no smaller and wait no longer than
  a refused one, until the first one's retry time. Each end of one of the tenant's requests lets ``ASKS_PER_END`` others
  ask again, or the queue would run empty.

Trade-off: a flooding tenant's refusals still cost as much, up to the number of its answers.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from penstock.domain.fleet.table import WorkerEntry
from penstock.domain.ids import TenantId, VersionId, WorkerId
from penstock.gateway.calls.demand import ANY, Demand

MOST_REMEMBERED = 4_096
"""Pairs of version and tenant; the least recently refused one is dropped first."""
ASKS_PER_END = 2
"""An end leaves room for about one request; with one ask for each, one refusal in five answers empties the queue."""
_LEARNING = 0.2
"""Weight of the last interval between two ends: five ends make the mean."""
MOST_ASKS = 64
"""The most asks that are kept, since an engine's step may end 32 requests at once."""


class _Refusal(NamedTuple):
    until: float
    refused: Demand

    def joined(self, other: Demand) -> "_Refusal":
        """Keep the smaller size and the longer deadline of both."""
        both = (self.refused.deadline_s, other.deadline_s)
        size = min(self.refused.body_bytes, other.body_bytes)
        return _Refusal(self.until, Demand(other.tenant, size, max(both) if all(both) else 0.0))


class _Pace:
    __slots__ = ("ended_at", "every_s", "told")

    def __init__(self, now: float) -> None:
        self.ended_at, self.every_s, self.told = now, 0.0, 0

    def ended(self, now: float) -> None:
        self.every_s += _LEARNING * (now - self.ended_at - self.every_s)
        self.ended_at, self.told = now, max(0, self.told - 1)

    def tell_s(self) -> float:
        self.told += 1
        return self.told * self.every_s


class TurnedAway:
    def __init__(self) -> None:
        self._paces: dict[tuple[VersionId, TenantId], _Pace] = {}
        self._words: dict[tuple[VersionId, TenantId], dict[WorkerId, _Refusal]] = {}
        self._asks: dict[tuple[VersionId, TenantId], int] = {}

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
            self._drop(next(iter(self._words)))

    def ended(self, version: VersionId, tenant: TenantId, now: float) -> None:
        key = (version, tenant)
        if tenant and any(word.until > now for word in self._words.get(key, {}).values()):
            self._asks[key] = min(MOST_ASKS, self._asks.get(key, 0) + ASKS_PER_END)
            self._paces.setdefault(key, _Pace(now)).ended(now)
        else:
            self._paces.pop(key, None)

    def may_ask(self, version: VersionId, tenant: TenantId) -> bool:
        return (version, tenant) in self._asks

    def ask(self, version: VersionId, tenant: TenantId) -> bool:
        """Uses up one permitted ask; False if there is none."""
        key = (version, tenant)
        left = self._asks.pop(key, 0)
        if left > 1:
            self._asks[key] = left - 1
        return left > 0

    def at(
        self, version: VersionId, serving: Sequence[WorkerEntry], now: float, demand: Demand = ANY
    ) -> frozenset[WorkerId]:
        """A worker that reports the adapter as loaded does not refuse."""
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

    def has_full_queue(self, version: VersionId, tenant: TenantId, now: float) -> bool:
        return bool(tenant) and any(one.until > now for one in self._words.get((version, tenant), {}).values())

    def tell_s(self, version: VersionId, workers: Collection[WorkerId], now: float, demand: Demand) -> float:
        """The wait of one more refused caller of this tenant."""
        pace = self._paces.get((version, demand.tenant))
        return max(self.wait_s(version, workers, now, demand), pace.tell_s() if pace is not None else 0.0)

    def keep(self, versions: Collection[str]) -> None:
        for key in [one for one in self._words if one[0] not in versions]:
            self._drop(key)

    def _drop(self, key: tuple[VersionId, TenantId]) -> None:
        del self._words[key]
        self._asks.pop(key, None)
        self._paces.pop(key, None)
