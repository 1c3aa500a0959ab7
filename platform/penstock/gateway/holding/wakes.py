"""What the routing table says of a version that nobody serves: who is to wake, and about when. Pure."""

from penstock.domain.ids import WorkerId
from penstock.domain.table import VersionEntry
from penstock.domain.worker import WorkerState

_READY = WorkerState.READY
_RESTING = frozenset({WorkerState.SLEEPING, WorkerState.WAKING})


def wakers(version: VersionEntry, before: frozenset[WorkerId]) -> frozenset[WorkerId]:
    """Return who sleeps or is on the way back; of those from ``before`` also who starts once more after a failure."""
    others = [worker for worker in version.workers if worker.state is not _READY]  # of ten thousand nearly all serve
    return frozenset(
        [one.id for one in others if one.state in _RESTING or (one.state.is_starting and one.id in before)]
    )


def expected_s(version: VersionEntry) -> float:
    """Return the seconds until the first may serve, by what the last wake or start took; 0 where nobody knows."""
    on_the_way = [worker.ready_in_s for worker in version.workers if worker.state.is_starting and worker.ready_in_s]
    return min(on_the_way, default=0.0) or version.restart_s or version.start_s
