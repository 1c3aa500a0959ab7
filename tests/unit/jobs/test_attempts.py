"""What becomes of a job after each way in which an attempt can end."""

from dataclasses import replace

import pytest

from penstock.domain.errors import (
    BudgetReached,
    ClientGone,
    DeadlineExceeded,
    DeadlineInQueue,
    Draining,
    EngineError,
    EngineRefused,
    Evicted,
    NoCapacity,
    OverBudget,
    PenstockError,
    StoreUnavailable,
    StreamBroken,
    UnknownModel,
    WorkerLost,
)
from penstock.domain.jobs.job import JobState, Reason
from penstock.jobs.attempts import FIRST_WAIT_S, MOST_BACK_S, MOST_PARKED_S, MOST_WAIT_S, Stopped, after
from tests.support.samples.jobs import JOB

NOW, MIDDLE = 1000.0, 0.5
"""``MIDDLE`` is the chance that leaves a wait as long as it is."""
NEVER_RAN = [NoCapacity(), Draining(), Evicted(), DeadlineInQueue(), StoreUnavailable(), OverBudget()]
MAY_HAVE_RUN = [EngineError(), WorkerLost(), StreamBroken(), DeadlineExceeded(), PenstockError()]


def test_an_answer_is_the_end() -> None:
    """A job whose request was answered has succeeded."""
    assert after(JOB, None, NOW, MIDDLE).state is JobState.SUCCEEDED


@pytest.mark.parametrize("error", [UnknownModel(), EngineRefused()], ids=type)
def test_a_request_at_fault_is_not_tried_again(error: PenstockError) -> None:
    """A 4xx of the request ends its job at once."""
    found = after(JOB, error, NOW, MIDDLE)
    assert (found.state, found.reason) == (JobState.FAILED, Reason.REFUSED)


@pytest.mark.parametrize("error", NEVER_RAN, ids=type)
def test_what_never_ran_is_no_attempt(error: PenstockError) -> None:
    """A refused job goes back and keeps its attempts, even if they were its last."""
    found = after(replace(JOB, attempt=JOB.max_attempts), error, NOW, MIDDLE)
    assert (found.state, found.counts) == (JobState.QUEUED, False)
    assert found.not_before > NOW


@pytest.mark.parametrize("error", MAY_HAVE_RUN, ids=type)
def test_what_may_have_run_counts_until_the_last(error: PenstockError) -> None:
    """A failed attempt is followed by another one, the last by none."""
    first = after(JOB, error, NOW, MIDDLE)
    last = after(replace(JOB, attempt=JOB.max_attempts), error, NOW, MIDDLE)
    assert (first.state, first.counts, first.reason) == (JobState.QUEUED, True, Reason.BACKOFF)
    assert (last.state, last.reason) == (JobState.FAILED, Reason.DEAD_LETTER)


def test_waits_grow_and_end() -> None:
    """Each failed attempt doubles the wait, up to the longest one."""
    waits = [
        after(replace(JOB, attempt=at, max_attempts=100), EngineError(), NOW, MIDDLE).not_before - NOW
        for at in range(1, 20)
    ]
    assert waits[:3] == [FIRST_WAIT_S, 2 * FIRST_WAIT_S, 4 * FIRST_WAIT_S]
    assert max(waits) == MOST_WAIT_S


@pytest.mark.parametrize("chance", [0.0, 0.25, 0.999])
def test_waits_are_spread(chance: float) -> None:
    """Chance makes a wait up to half as long again or half as short."""
    wait_s = after(JOB, EngineError(), NOW, chance).not_before - NOW
    assert 0.5 * FIRST_WAIT_S <= wait_s <= 1.5 * FIRST_WAIT_S


def test_a_refusal_names_the_time_to_return() -> None:
    """A refusal's own seconds are kept, within bounds: capacity and budgets may return sooner."""
    soon = after(JOB, NoCapacity(retry_after_s=7.0), NOW, MIDDLE)
    late = after(JOB, NoCapacity(retry_after_s=1e6), NOW, MIDDLE)
    empty = after(JOB, OverBudget(retry_after_s=1e6), NOW, MIDDLE)
    assert [one.not_before - NOW for one in (soon, late, empty)] == [7.0, MOST_BACK_S, MOST_PARKED_S]
    outside = after(JOB, NoCapacity(reason="pool"), NOW, MIDDLE)
    assert [one.reason for one in (soon, empty, outside)] == [Reason.CAPACITY, Reason.BUDGET, Reason.POOL]
    assert not outside.counts


def test_a_budget_that_ends_while_it_runs_parks_the_job() -> None:
    """An answer cut off by its budget is asked again when the budget turns."""
    found = after(JOB, BudgetReached(retry_after_s=60.0), NOW, MIDDLE)
    assert (found.state, found.reason, found.not_before - NOW) == (JobState.QUEUED, Reason.BUDGET, 60.0)


@pytest.mark.parametrize("error", [NoCapacity(), EngineError(), DeadlineExceeded()], ids=type)
def test_nothing_follows_the_deadline(error: PenstockError) -> None:
    """An attempt that ends after the job's deadline is the last one, whatever ended it."""
    found = after(replace(JOB, deadline_at=NOW), error, NOW, MIDDLE)
    assert (found.state, found.reason) == (JobState.FAILED, Reason.DEADLINE)


@pytest.mark.parametrize(
    ("stopped", "state", "reason"),
    [
        (Stopped.CANCELLED, JobState.CANCELLED, Reason.CALLER),
        (Stopped.KEY_REVOKED, JobState.CANCELLED, Reason.KEY_REVOKED),
        (Stopped.DEADLINE, JobState.FAILED, Reason.DEADLINE),
        (Stopped.PAUSED, JobState.QUEUED, Reason.PAUSED),
        (Stopped.DRAINED, JobState.QUEUED, Reason.NONE),
    ],
)
def test_a_stop_decides(stopped: Stopped, state: JobState, reason: Reason) -> None:
    """A job that its runner stopped goes as the stop says; an answer that was faster counts."""
    found = after(replace(JOB, attempt=JOB.max_attempts), ClientGone(), NOW, MIDDLE, stopped)
    assert (found.state, found.reason) == (state, reason)
    assert after(JOB, None, NOW, MIDDLE, stopped).state is JobState.SUCCEEDED


def test_a_pause_and_a_drain_cost_no_attempt() -> None:
    """What the platform or the tenant interrupts is given back."""
    assert not after(JOB, ClientGone(), NOW, MIDDLE, Stopped.PAUSED).counts
    assert not after(JOB, ClientGone(), NOW, MIDDLE, Stopped.DRAINED).counts
