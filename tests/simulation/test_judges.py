"""The judge in virtual time: equal candidates go through, worse ones are found, and what others do is told apart."""

import statistics

import pytest

from penstock.domain.rollout.judgement import Verdict
from tests.simulation.judges import MannWhitney, MixtureRatio, Ours, one_cell, play
from tests.support.gateways.simulated_arms import Regression, World
from tests.support.variants import drilled

TEN_MINUTES_S = 600


@pytest.mark.parametrize(("per_s", "share"), [(20.0, 0.05), *drilled([(20.0, 0.25)])])
def test_an_equal_candidate_is_promoted_and_not_aborted(per_s: float, share: float) -> None:
    """Also with sticky tenants of long prompts: nine of ten of its own, and a third of the incumbent's."""
    worlds = [World(seed=i, per_s=per_s, share=share, long_ratio=0.9) for i in range(4)]
    ran = [play(Ours(), world.seconds(TEN_MINUTES_S)) for world in worlds]
    assert [one.aborted_at for one in ran] == [None] * 4
    assert sum(one.promoted_at is not None for one in ran) >= 3


@pytest.mark.parametrize(
    ("regression", "within_s"),
    [
        (Regression(slower=2.0), 60),
        (Regression(slower=3.0), 45),
        (Regression(slower=2.0, since=300), 60),
        (Regression(bad=0.05), 120),
        (Regression(bad=1.0), 10),
        (Regression(dearer=3.0), 300),
    ],
    ids=["2x", "3x", "2x after five minutes", "5 % bad", "all bad", "three times the tokens"],
)
def test_a_worse_candidate_is_found_in_time(regression: Regression, within_s: int) -> None:
    """At five comparable requests a second; seconds from its first fault to the verdict, median of five."""
    worlds = [World(seed=i, per_s=20.0, share=0.25, regression=regression) for i in range(5)]
    ran = [play(Ours(), world.seconds(TEN_MINUTES_S)) for world in worlds]
    assert all(one.aborted_at is not None for one in ran)
    assert statistics.median(one.aborted_at or 0 for one in ran) - regression.since <= within_s


def test_what_the_parts_are_for() -> None:
    """On the same equal traffic, without cells, test after test and mSPRT abort what the judge lets go on."""
    worlds = [World(seed=i, per_s=20.0, share=0.25, long_ratio=0.9) for i in range(2)]
    assert all(play(MannWhitney(), world.seconds(TEN_MINUTES_S)).aborted_at for world in worlds)
    assert all(play(MixtureRatio(), world.seconds(TEN_MINUTES_S)).aborted_at for world in worlds)
    assert all(play(Ours(seen=one_cell), world.seconds(TEN_MINUTES_S)).aborted_at for world in worlds)
    assert not any(play(Ours(), world.seconds(TEN_MINUTES_S)).aborted_at for world in worlds)


def test_too_little_traffic_says_so_by_waiting() -> None:
    """A request every twenty seconds proves nothing in ten minutes, neither good nor bad."""
    way, said = Ours(), set[Verdict]()
    for second in World(seed=1, per_s=2.0, share=0.025).seconds(TEN_MINUTES_S):
        said.add(way(second))
    assert said == {Verdict.WAIT}
