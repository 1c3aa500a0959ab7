"""Scores of workers: each in its range, and of one coin."""

import random

from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.fleet.table import WorkerEntry
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import WorkerId
from penstock.gateway.routing import scorers, selection
from penstock.gateway.routing.scorers import Candidate

WORKER = WorkerEntry(id=WorkerId("w0"), url="http://w0", state=WorkerState.READY)

_CANDIDATES = st.lists(
    st.builds(
        Candidate,
        entry=st.just(WORKER),
        work_tokens=st.floats(0, 1e7),
        kv_used_ratio=st.floats(-1, 2),
        cached_tokens=st.integers(0, 10**6),
        wait_s=st.floats(0, 1e4),
        pace_per_s=st.floats(0, 1e6),
    ),
    min_size=1,
    max_size=8,
)


@given(_CANDIDATES)
def test_scores_are_in_range(candidates: list[Candidate]) -> None:
    """Every score is in [0, 1]."""
    assert all(0.0 <= score <= 1.0 for score in scorers.totals(candidates))


def test_chance_sends_no_short_request_to_a_slower_worker() -> None:
    """Idle but for three tokens and forty more at an equal one: a tie of scores is no tie of workers."""
    fast, chance = Candidate(WORKER, 43.0, pace_per_s=1000.0), random.Random(1)
    for pace, picks in ((1000.0, {0, 1}), (600.0, {0}), (100.0, {0})):
        scores = scorers.totals([fast, Candidate(WORKER, 3.0, pace_per_s=pace)], own_tokens=3)
        assert {selection.best(scores, chance) for _ in range(200)} == picks


def test_slower_hardware_counts_its_work_for_longer() -> None:
    """A tenth of the pace makes the same tokens ten times the work; without a pace, or with like ones, tokens count."""
    one = Candidate(WORKER, 1000.0, pace_per_s=1000.0)
    for pace, is_equal in ((100.0, False), (0.0, True), (900.0, True)):
        fast, slow = scorers.totals([one, one._replace(pace_per_s=pace)])
        assert (fast == slow) is is_equal
    busy, slow = scorers.totals([one._replace(work_tokens=5000.0), one._replace(pace_per_s=100.0)])
    assert busy > slow


@given(st.floats(0, 4_000), st.integers(1, 4_000))
def test_saved_and_queued_tokens_are_one_coin(saved_gap: float, saved: int) -> None:
    """Against an idle worker, a cached prefix is worth as many tokens of queue as it saves."""
    idle = Candidate(entry=WORKER, work_tokens=0.0, kv_used_ratio=0.0, cached_tokens=0)
    holder = idle._replace(work_tokens=saved_gap, cached_tokens=saved)
    empty, held = scorers.totals([idle, holder])
    if saved > saved_gap + 1:
        assert held > empty
    elif saved < saved_gap - 1:
        assert held < empty
