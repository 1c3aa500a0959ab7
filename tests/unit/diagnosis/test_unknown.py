"""What is unknown is said, and decides nothing."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.apps import slos
from penstock.diagnosis.cases import CASES
from penstock.diagnosis.evidence import AnyOf, Case, Check, Cost, Judgement, Remedy, Sense, State
from penstock.diagnosis.measure import snapshot_of
from penstock.diagnosis.recording import Recording
from penstock.diagnosis.verdict import Word, judge
from tests.support.monitoring.measurements import recorded
from tests.support.scenarios.diagnoses import BATCH_TOO_SMALL, HEALTHY, LATE, SATURATED, SITUATIONS, Look

TRUTHS = st.sampled_from((True, False, None))
VALUES = {True: 2.0, False: 0.5, None: None}


def check(holds: bool | None, *, needed: bool = True) -> Check:
    return Check(says="x", metric="m", value=VALUES[holds], limit=1.0, needed=needed)


def judgement(*evidence: Check | AnyOf) -> Judgement:
    remedy = Remedy(says="Do.", cost=Cost.NOTHING)
    return Judgement(case=Case.KV_BOUND, says="It.", evidence=evidence, harms=(), remedies=(remedy,))


@given(st.lists(TRUTHS, min_size=1, max_size=5))
def test_only_what_is_known_rules_out(truths: list[bool | None]) -> None:
    """A case is ruled out exactly where a check fails, and found exactly where all hold."""
    state = judgement(*map(check, truths)).state
    assert (state is State.RULED_OUT) == (False in truths)
    assert (state is State.FOUND) == all(truths)


@given(st.lists(TRUTHS, min_size=1, max_size=4))
def test_one_of_several_is_enough(truths: list[bool | None]) -> None:
    """Of several checks one that holds is enough, and only all of them failing rules out."""
    holds = AnyOf(checks=tuple(map(check, truths))).holds
    assert holds == (True if True in truths else None if None in truths else False)


def test_what_is_not_needed_may_be_unknown_and_may_not_fail() -> None:
    """Corroborating evidence that nobody has keeps no case from being found; where it contradicts, it rules out."""
    assert judgement(check(True), check(None, needed=False)).state is State.FOUND
    assert judgement(check(True), check(False, needed=False)).state is State.RULED_OUT


@given(st.floats(min_value=0, max_value=1e9), st.floats(min_value=0, max_value=1e9))
def test_a_threshold_divides_all_values(value: float, limit: float) -> None:
    """Each value is on one side of a threshold, and a value at it counts as reaching it."""
    at_least = Check(says="x", metric="m", value=value, limit=limit).holds
    below = Check(says="x", metric="m", value=value, limit=limit, sense=Sense.BELOW).holds
    assert at_least == (value >= limit)
    assert below == (not at_least)


def test_without_the_gpus_account_a_small_batch_is_left_open(look: Look) -> None:
    """Saturated engines are found without the GPUs' own account; that the batch is too small stays possible."""
    verdict = judge(look(replace(BATCH_TOO_SMALL, device=None)))
    assert verdict.bottleneck is Case.ENGINE_SATURATED
    left = next(one for one in verdict.undecided if one.case is Case.BATCH_TOO_SMALL)
    assert [one.metric for one in left.unknown] == ["DCGM_FI_DEV_GPU_UTIL"]


@pytest.mark.parametrize("case", SITUATIONS)
def test_a_metric_that_is_absent_rules_nothing_out(case: Case) -> None:
    """Whichever metric a recording lacks, the case that is there is found or left open, never ruled out."""
    whole = recorded(SITUATIONS[case])
    for name in (*whole.increases, *whole.levels):
        lacking = Recording(
            seconds=whole.seconds,
            increases={k: v for k, v in whole.increases.items() if k != name},
            levels={k: v for k, v in whole.levels.items() if k != name},
        )
        snapshot = snapshot_of(lacking, slos.load().values())
        ruled_out = [one for one in (rule(snapshot) for rule in CASES) if one.state is State.RULED_OUT]
        assert case not in {one.case for one in ruled_out}, f"without {name}"


def test_few_events_say_nothing_of_a_promise(look: Look) -> None:
    """Of nine first tokens no share is taken, so no promise is called broken by them."""
    snapshot = look(replace(HEALTHY, ttft_s={2.0: 9}))
    assert [one.good_ratio for one in snapshot.objectives if (one.tier, one.indicator) == ("chat", "ttft")] == [None]


def test_a_broken_promise_without_a_cause_is_unexplained(look: Look) -> None:
    """Late first tokens while every case is ruled out are said to be unexplained."""
    verdict = judge(look(replace(HEALTHY, ttft_s=LATE)))
    assert verdict.word is Word.UNEXPLAINED
    assert [one.indicator for one in verdict.missed] == ["ttft"]


def test_a_cause_that_breaks_no_promise_is_no_bottleneck(look: Look) -> None:
    """Full engines whose callers are still served in time are told, and nothing is called wrong."""
    verdict = judge(look(replace(SATURATED, ttft_s={0.3: 120})))
    assert verdict.word is Word.HEALTHY
    assert [one.judgement.case for one in verdict.findings] == [Case.ENGINE_SATURATED]


def test_a_cause_that_lets_nobody_through_is_the_bottleneck(look: Look) -> None:
    """Where too few first tokens come to speak of a share, a full engine is no healthy one."""
    verdict = judge(look(replace(SATURATED, ttft_s={0.3: 3}, itl_s={})))
    assert verdict.bottleneck is Case.ENGINE_SATURATED
    assert verdict.findings[0].at_stake == ()
