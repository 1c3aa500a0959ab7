"""Workers that refused an adapter: it can't be loaded there, or answers wrongly. Pure.

A worker goes on trying by itself, so it is not asked for a while; its base and other adapters answer there as ever. If
all workers refuse, the adapter alone is shut.

Trade-off: only the end of that time, or a heartbeat that lists the adapter, tells that a worker has it again.
"""

from collections.abc import Collection, Sequence

from penstock.domain.fleet.table import WorkerEntry
from penstock.domain.ids import VersionId, WorkerId

MOST_ADAPTERS = 4_096
"""So many are remembered; the one that was refused least lately goes first."""


class TurnedAway:
    """Until when each adapter is not asked for at which worker (monotonic seconds)."""

    def __init__(self) -> None:
        self._until: dict[VersionId, dict[WorkerId, float]] = {}

    def __len__(self) -> int:
        return len(self._until)

    def note(self, worker: WorkerId, adapter: VersionId, now: float, for_s: float) -> None:
        """Note that this worker has just refused it, for these seconds."""
        refused = self._until.pop(adapter, {})
        refused[worker] = now + for_s
        self._until[adapter] = refused
        if len(self._until) > MOST_ADAPTERS:
            del self._until[next(iter(self._until))]

    def at(self, adapter: VersionId, serving: Sequence[WorkerEntry], now: float) -> frozenset[WorkerId]:
        """Return those of a base's workers that refuse it now; one that says it holds it does not."""
        refused = self._until.get(adapter)
        if not refused:
            return frozenset()
        return frozenset([one.id for one in serving if refused.get(one.id, now) > now and adapter not in one.adapters])

    def wait_s(self, adapter: VersionId, workers: Collection[WorkerId], now: float) -> float:
        """Return the seconds until the first of these is asked again."""
        refused = self._until.get(adapter, {})
        return max(0.0, min((refused.get(worker, now) for worker in workers), default=now) - now)

    def keep(self, versions: Collection[str]) -> None:
        """Forget adapters that are served no more."""
        for adapter in [one for one in self._until if one not in versions]:
            del self._until[adapter]
