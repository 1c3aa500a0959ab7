"""The wake of a version that no worker serves, read from the routing table: its workers, and the expected time.
Pure.
"""

from penstock.domain.errors import NoCapacity
from penstock.domain.fleet.table import VersionEntry
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import WorkerId
from penstock.domain.outcome import POOL_PINNED

GIVEN_UP = "crowded_out"
"""The label of a hold that ends because its version can't wake."""
_READY = WorkerState.READY
_RESTING = frozenset({WorkerState.SLEEPING, WorkerState.WAKING})


def is_crowded_out(version: VersionEntry) -> bool:
    """Tell whether all workers of the version sleep, and none can wake because pinned versions hold the memory."""
    return version.is_crowded_out and all(worker.state is WorkerState.SLEEPING for worker in version.workers)


def crowded_out() -> NoCapacity:
    says = "the model is asleep, and pinned models hold the memory that it needs"
    return NoCapacity(says, reason=POOL_PINNED)


def wakers(version: VersionEntry, before: frozenset[WorkerId]) -> frozenset[WorkerId]:
    """Return the workers that sleep or are waking; of ``before`` also those that restart after a failure."""
    others = [worker for worker in version.workers if worker.state is not _READY]  # of ten thousand nearly all serve
    return frozenset(
        [one.id for one in others if one.state in _RESTING or (one.state.is_starting and one.id in before)]
    )


def expected_s(version: VersionEntry) -> float:
    """Return the seconds until the first worker may serve, by the last wake or start; 0 if unknown."""
    on_the_way = [worker.ready_in_s for worker in version.workers if worker.state.is_starting and worker.ready_in_s]
    return min(on_the_way, default=0.0) or version.restart_s or version.start_s
