"""What becomes of a job after an attempt: done, failed at once, or queued again, now or later. Pure.

What never ran goes back and is no attempt. What may have run counts, and after the last one the job is a dead letter.

Trade-off: an attempt that its own platform or tenant interrupted (a drain, a pause) is given back, though it ran.
"""

from dataclasses import dataclass
from enum import StrEnum

from penstock.domain.errors import (
    BadRequest,
    BudgetReached,
    Evicted,
    OverBudget,
    PenstockError,
    Rejected,
    StoreUnavailable,
)
from penstock.domain.jobs.job import Job, JobState, Reason
from penstock.domain.outcome import OUTSIDE_POOLS

FIRST_WAIT_S = 1.0
"""Seconds before the second attempt, doubled for each further one: a worker's restart takes some seconds."""
MOST_WAIT_S = 60.0
BACK_S = 1.0
"""Seconds until a refused job is claimed again if its refusal names no time."""
MOST_BACK_S = 30.0
"""Seconds after which a refused job is tried again, whatever the refusal said: capacity may return sooner."""
MOST_PARKED_S = 300.0
"""Seconds between two looks at an empty budget: an operator may raise it before its window turns."""
JITTER = 0.5
"""The part by which each wait is longer or shorter, so that jobs refused together do not return together."""


class Stopped(StrEnum):
    """Why a runner ended a request of its own accord."""

    CANCELLED = "cancelled"
    DEADLINE = "deadline"
    PAUSED = "paused"
    KEY_REVOKED = "key_revoked"
    DRAINED = "drained"
    """The runner ends."""


_STOPPED = {
    Stopped.CANCELLED: (JobState.CANCELLED, Reason.CALLER),
    Stopped.KEY_REVOKED: (JobState.CANCELLED, Reason.KEY_REVOKED),
    Stopped.DEADLINE: (JobState.FAILED, Reason.DEADLINE),
    Stopped.PAUSED: (JobState.QUEUED, Reason.PAUSED),
    Stopped.DRAINED: (JobState.QUEUED, Reason.NONE),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Next:
    """A job's way after an attempt; an open ``state`` is the queue again, from Unix second ``not_before`` on."""

    state: JobState
    reason: Reason = Reason.NONE
    not_before: float = 0.0
    counts: bool = True
    """Whether it was an attempt."""


def after(job: Job, error: PenstockError | None, now: float, chance: float, stopped: Stopped | None = None) -> Next:
    """Return what follows an attempt that ended with ``error`` at ``now``; ``chance`` is drawn from [0, 1)."""
    if error is None:
        return Next(state=JobState.SUCCEEDED)
    if stopped is not None:
        state, reason = _STOPPED[stopped]
        return Next(state=state, reason=reason, not_before=now, counts=state is not JobState.QUEUED)
    if isinstance(error, BadRequest):
        return Next(state=JobState.FAILED, reason=Reason.REFUSED)
    if now >= job.deadline_at:
        return Next(state=JobState.FAILED, reason=Reason.DEADLINE)
    return _again(job, error, now, chance)


def _again(job: Job, error: PenstockError, now: float, chance: float) -> Next:
    if isinstance(error, OverBudget | BudgetReached):
        return _back(Reason.BUDGET, now, _jittered(min(error.retry_after_s or MOST_PARKED_S, MOST_PARKED_S), chance))
    if isinstance(error, Rejected | Evicted | StoreUnavailable):
        reason = Reason.POOL if error.reason == OUTSIDE_POOLS else Reason.CAPACITY
        return _back(reason, now, _jittered(min(error.retry_after_s or BACK_S, MOST_BACK_S), chance))
    if job.attempt >= job.max_attempts:
        return Next(state=JobState.FAILED, reason=Reason.DEAD_LETTER)
    wait_s = min(FIRST_WAIT_S * 2.0 ** max(0, job.attempt - 1), MOST_WAIT_S)
    return Next(state=JobState.QUEUED, reason=Reason.BACKOFF, not_before=now + _jittered(wait_s, chance))


def _back(reason: Reason, now: float, wait_s: float) -> Next:
    return Next(state=JobState.QUEUED, reason=reason, not_before=now + wait_s, counts=False)


def _jittered(wait_s: float, chance: float) -> float:
    return wait_s * (1.0 - JITTER + 2.0 * JITTER * chance)
