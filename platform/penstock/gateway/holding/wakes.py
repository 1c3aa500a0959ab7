"""Workers of the routing table that will serve a version which none serves, and the expected time. Pure."""

from collections.abc import Collection

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
    """True if all workers sleep, and pinned versions hold the memory."""
    return version.is_crowded_out and all(worker.state is WorkerState.SLEEPING for worker in version.workers)


def crowded_out() -> NoCapacity:
    says = "the model is asleep, and pinned models hold the memory that it needs"
    return NoCapacity(says, reason=POOL_PINNED)


def wakers(version: VersionEntry, before: Collection[WorkerId], within_s: float) -> frozenset[WorkerId]:
    others = [worker for worker in version.workers if worker.state is not _READY]  # of ten thousand nearly all serve
    is_lost = bool(version.start_s) and len(others) == len(version.workers) and expected_s(version) <= within_s
    return frozenset(
        [one.id for one in others if one.state in _RESTING or (one.state.is_starting and (is_lost or one.id in before))]
    )


def expected_s(version: VersionEntry) -> float:
    """Return the seconds of the last wake or start; 0 if unknown."""
    on_the_way = [worker.ready_in_s for worker in version.workers if worker.state.is_starting and worker.ready_in_s]
    return min(on_the_way, default=0.0) or version.restart_s or version.start_s
