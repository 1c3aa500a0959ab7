"""Workers that refused an adapter: it can't be loaded there, or answers wrongly. Pure.

Such a worker retries by itself, so it is not asked for a while; its base and other adapters answer there as ever.

Trade-off: only the end of that time, or a heartbeat that lists the adapter, tells of its return.
"""

from collections.abc import Collection, Sequence

from penstock.domain.fleet.table import WorkerEntry
from penstock.domain.ids import VersionId, WorkerId

MOST_ADAPTERS = 4_096
"""So many are remembered; the one that was refused least lately goes first."""


class TurnedAway:
    def __init__(self) -> None:
        self._until: dict[VersionId, dict[WorkerId, float]] = {}

    def __len__(self) -> int:
        return len(self._until)

    def note(self, worker: WorkerId, adapter: VersionId, now: float, for_s: float) -> None:
        refused = self._until.pop(adapter, {})
        refused[worker] = now + for_s
        self._until[adapter] = refused
        if len(self._until) > MOST_ADAPTERS:
            del self._until[next(iter(self._until))]

    def at(self, adapter: VersionId, serving: Sequence[WorkerEntry], now: float) -> frozenset[WorkerId]:
        """Return the workers that refuse it now; one that reports the adapter does not."""
        refused = self._until.get(adapter)
        if not refused:
            return frozenset()
        return frozenset([one.id for one in serving if refused.get(one.id, now) > now and adapter not in one.adapters])

    def wait_s(self, adapter: VersionId, workers: Collection[WorkerId], now: float) -> float:
        refused = self._until.get(adapter, {})
        return max(0.0, min((refused.get(worker, now) for worker in workers), default=now) - now)

    def keep(self, versions: Collection[str]) -> None:
        for adapter in [one for one in self._until if one not in versions]:
            del self._until[adapter]
