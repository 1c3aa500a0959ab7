"""The refusal of a request that no worker accepts: the reason, and the retry time. Pure."""

from collections.abc import Collection

from penstock.domain.errors import NoCapacity, Overloaded
from penstock.domain.fleet.table import VersionEntry
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.outcome import OUTSIDE_POOLS, OWN_QUEUE, POOL_PINNED, TENANT_QUEUE

_THERE = frozenset({WorkerState.READY, WorkerState.SLEEPING})
"""States of workers that serve again without a start from nothing: lost a moment ago, or asleep."""


_COMES = frozenset(WorkerState) - frozenset({WorkerState.SLEEPING, WorkerState.STOPPED, WorkerState.FAILED})
RETRY_AFTER_S = 20.0
"""Used if no start of the version was ever timed: about the time of a small model on a CPU."""
NOTICE_S = 2.0
"""Added for a start that has not begun, since the loss must be detected first."""
MOST_RETRY_AFTER_S = 60.0


def nobody(version: VersionEntry) -> NoCapacity:
    """Tell the expected end of the first start, else a start's usual time.

    A worker lost a moment ago is restarted on its node, which is quicker.
    """
    if version.is_crowded_out and not any(worker.state in _COMES for worker in version.workers):
        says = "no worker of this model can start: pinned models hold the memory that it needs"
        return NoCapacity(says, reason=POOL_PINNED)
    if version.is_unwanted and not version.workers:
        return NoCapacity("no worker of this model is deployed, and none starts until an operator scales it")
    starting = [w.ready_in_s for w in version.workers if w.state.is_starting and w.ready_in_s]
    return NoCapacity(retry_after_s=_within(min(starting, default=0.0) or _start_s(version)))


def failing(version: VersionEntry, shut_s: float, *, is_unreachable: bool) -> NoCapacity:
    """Tell the next probe's time, or a start's if only a start helps."""
    if is_unreachable:
        return nobody(version)
    return NoCapacity("every worker of this model fails", retry_after_s=_within(shut_s))


def refusing(wait_s: float) -> NoCapacity:
    says = "the adapter was refused by every worker of its base, and is tried again after a while"
    return NoCapacity(says, retry_after_s=_within(wait_s))


def outside(pools: Collection[str]) -> NoCapacity:
    says = f"no worker of this model is in a pool that the plan names for batch work: {', '.join(sorted(pools))}"
    return NoCapacity(says, reason=OUTSIDE_POOLS, retry_after_s=RETRY_AFTER_S)


def own_queue(wait_s: float) -> Overloaded:
    return Overloaded(OWN_QUEUE, retry_after_s=_within(wait_s), reason=TENANT_QUEUE)


def full(wait_s: float) -> Overloaded:
    return Overloaded(retry_after_s=_within(wait_s))


def _start_s(version: VersionEntry) -> float:
    is_there = any(worker.state in _THERE for worker in version.workers)
    start_s = (is_there and version.restart_s) or version.start_s or version.kin_start_s
    return start_s + NOTICE_S if start_s else RETRY_AFTER_S


def _within(wait_s: float) -> float:
    return min(MOST_RETRY_AFTER_S, max(1.0, wait_s))
