"""The plan beside the judge itself in virtual time, and what it says of traffic that is too thin."""

import math
import statistics
from dataclasses import replace

import pytest

from penstock.apps import slos
from penstock.domain.models.model import Tier
from penstock.domain.rollout.judgement import Verdict
from penstock.domain.rollout.rollout import PATIENCE_S, STAGES, Kind, Rollout, Stage
from penstock.domain.serving.shadow import ShadowCaps
from penstock.judging.e_process import EProcess, expected_s
from penstock.judging.judge import Judge
from penstock.judging.plan import Planned, plan
from tests.support.gateways.simulated_arms import ALIAS, NEW, OLD, Regression, World

GATES = slos.gates(Tier.CHAT)
HALF = (Stage(name="half", weight=5000), *STAGES[-1:])
ROLLOUT = Rollout(id="r", alias=ALIAS, incumbent=OLD, candidate=NEW, stages=STAGES[1:])


def planned(per_s: float, *, rollout: Rollout = ROLLOUT, incumbents: int = 4) -> Planned:
    return plan(rollout, round(per_s * 3600), 3600.0, GATES, incumbents)


def decides_after(seed: int, per_s: float, wanted: Verdict, regression: Regression) -> float:
    """Return the seconds until the judge says this of a candidate with half of the traffic."""
    judge = Judge(GATES, ALIAS, OLD, NEW)
    for second in World(seed=seed, per_s=per_s, share=0.5, regression=regression).seconds(1800):
        judge.take(second, second.at + 1.0)
        if judge.judgement(second.at + 1.0).verdict is wanted:
            return second.at
    return math.inf


@pytest.mark.parametrize(
    ("per_s", "wanted", "regression", "what"),
    [
        (2.0, Verdict.PROMOTE, Regression(), "needs"),
        (10.0, Verdict.PROMOTE, Regression(), "needs"),
        (10.0, Verdict.ABORT, Regression(slower=2.0), "2x slower"),
        (10.0, Verdict.ABORT, Regression(slower=3.0), "3x slower"),
        (2.0, Verdict.ABORT, Regression(bad=1.0), "all bad"),
    ],
)
def test_the_judge_needs_about_as_long_as_was_planned(
    per_s: float, wanted: Verdict, regression: Regression, what: str
) -> None:
    """Within a factor of two of the median of five rollouts, and five seconds."""
    stage = planned(per_s, rollout=replace(ROLLOUT, stages=HALF)).stages[0]
    said = stage.needs_s if what == "needs" else stage.finds_s[what]
    took = statistics.median(decides_after(seed, per_s, wanted, regression) for seed in range(5))
    assert said is not None
    assert took / 2 - 5 <= said <= took * 2 + 5


def test_thin_shares_are_told_beforehand() -> None:
    """At two requests a second a hundredth of them proves nothing within an hour, and says by how much."""
    stages = planned(2.0).stages
    assert [one.needs_s is None for one in stages] == [True, False, False, False, False, False]
    assert stages[0].lacks == "a proof with 72 requests an hour takes 4.3 h, and patience ends after 1.0 h"
    assert planned(2.0).takes_s is None
    nobody = planned(0.0)
    assert [one.needs_s for one in nobody.stages] == [None] * 5 + [600.0]
    assert set(nobody.stages[0].finds_s.values()) == {None}


def test_an_incumbent_without_requests_of_its_own_compares_with_nobody() -> None:
    """A share of 99 % leaves too little beside it."""
    stages = (Stage(name="nearly", weight=9900), *STAGES[-1:])
    (nearly, _) = planned(10.0, rollout=replace(ROLLOUT, stages=stages)).stages
    assert (nearly.needs_s, nearly.lacks) == (None, "the incumbent's 360 requests an hour are too few to compare with")


def test_the_least_time_of_a_share_holds_and_workers_follow_it() -> None:
    """Plenty of traffic takes the stage's own time; the candidate's workers and their hours go by its share."""
    whole = planned(500.0)
    assert [one.workers for one in whole.stages] == [1, 1, 1, 2, 4, 4]
    assert [one.needs_s for one in whole.stages][4:] == [60.0, 600.0]
    assert whole.stages[5].worker_hours == pytest.approx(4 * 600 / 3600)
    assert whole.takes_s == pytest.approx(sum(one.needs_s or 0.0 for one in whole.stages))
    assert whole.takes_s is not None
    assert whole.takes_s < PATIENCE_S


def test_what_is_expected_of_bets_is_what_bets_do() -> None:
    """Second by second, by the bets themselves."""
    bets, per_s = EProcess(forgets=False), {0.9: 2, 0.5: 1}
    seconds = 0
    while bets.log_wealth < math.log(100.0):
        bets.observe(per_s, 0.6, 1.5)
        seconds += 1
    assert seconds == math.ceil(expected_s(per_s, 0.6, 1.5, 100.0))
    assert expected_s({0.4: 5.0}, 0.6, 1.0, 100.0) == math.inf
    assert expected_s({}, 0.6, 1.0, 100.0) == math.inf


def test_the_unseen_stage_needs_what_scores_prove() -> None:
    """Copies come at the traffic's rate or at their cap's; scores are the slower proof, and other models need none."""
    start = replace(ROLLOUT, stages=STAGES)
    few = replace(start, shadow=ShadowCaps(scored_per_s=0.1))
    other = replace(few, kind=Kind.DIFFERENT)
    found = [plan(one, 72_000, 3600.0, GATES, 2).stages[0] for one in (start, few, other)]
    assert [one.per_s for one in found] == [5.0] * 3
    needs = [one.needs_s or 0.0 for one in found]
    assert needs[1] == pytest.approx(1000.0, rel=0.1)
    assert needs[2] <= needs[0] < needs[1]
    assert plan(start, 1080, 3600.0, GATES, 2).stages[0].per_s == 0.3
