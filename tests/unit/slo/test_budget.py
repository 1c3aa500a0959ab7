"""Error budgets: what is left, how fast it goes, when it is spent; and what the policy makes of them."""

from dataclasses import replace

import pytest

from penstock.apps import slos
from penstock.domain.serving.spec import SpecRefused
from penstock.slo import budget
from penstock.slo.budget import Budget
from penstock.slo.policy import Policy, RolloutPace, judge, parse

DAY_S = 86_400
WELL = Budget(tier="chat", objective="ttft", good_ratio=0.95, period_days=28, left_ratio=0.5, burns={"6h": 2.0})
POLICY = Policy(freeze_at=0.0, slow_at=0.25, without_data=RolloutPace.SLOW)


@pytest.mark.parametrize(
    ("bad_ratio", "is_counted", "left", "burn"),
    [(0.0, True, 1.0, 0.0), (0.025, True, 0.5, 0.5), (0.1, True, -1.0, 2.0), (None, True, 1.0, None)],
    ids=["all good", "half spent", "overspent", "nobody asked"],
)
def test_what_is_left_follows_from_the_share_of_bad_events(
    bad_ratio: float | None, is_counted: bool, left: float, burn: float | None
) -> None:
    """A budget of five in a hundred is spent by as many; below zero is overspent; without events nothing is spent."""
    assert budget.left(bad_ratio, 0.95, is_counted=is_counted) == pytest.approx(left)
    assert budget.burn(bad_ratio, 0.95) == (None if burn is None else pytest.approx(burn))


def test_what_nobody_counted_is_unknown() -> None:
    """Unknown is neither full nor spent, and has no forecast."""
    assert budget.left(None, 0.95, is_counted=False) is None
    assert replace(WELL, left_ratio=None).spent_in_s is None


@pytest.mark.parametrize(
    ("left_ratio", "pace", "days"),
    [(0.5, 2.0, 7.0), (1.0, 1.0, 28.0), (0.0, 2.0, 0.0), (-0.5, 0.0, 0.0), (0.5, 0.0, None), (0.5, None, None)],
)
def test_a_forecast_goes_on_at_the_present_pace(left_ratio: float, pace: float | None, days: float | None) -> None:
    """Half a budget of 28 days lasts seven at twice the allowed pace; at none, or an unknown one, there is no end."""
    spent_in_s = replace(WELL, left_ratio=left_ratio, burns={"6h": pace}).spent_in_s
    assert spent_in_s == (None if days is None else pytest.approx(days * DAY_S))


@pytest.mark.parametrize(
    ("left", "pace", "because"),
    [
        ((0.9, 0.26), RolloutPace.FREE, []),
        ((0.9, 0.25), RolloutPace.SLOW, [0.25]),
        ((0.9, 0.001), RolloutPace.SLOW, [0.001]),
        ((0.9, 0.0), RolloutPace.FROZEN, [0.0]),
        ((0.1, -3.0), RolloutPace.FROZEN, [-3.0]),
        ((0.9, None), RolloutPace.SLOW, [None]),
        ((None, 0.0), RolloutPace.FROZEN, [0.0]),
        ((), RolloutPace.SLOW, []),
    ],
)
def test_the_objective_in_most_trouble_decides(
    left: tuple[float | None, ...], pace: RolloutPace, because: list[float | None]
) -> None:
    """A spent budget freezes rollouts, little or unknown slows them down, and the verdict names who says so."""
    verdict = judge(POLICY, [replace(WELL, left_ratio=one) for one in left])
    assert verdict.pace is pace
    assert [one.left_ratio for one in verdict.because] == because


def test_the_platform_has_a_policy() -> None:
    """What ships freezes at a spent budget and never takes the unknown for full."""
    shipped = slos.policy()
    assert shipped.freeze_at == 0.0
    assert shipped.without_data is not RolloutPace.FREE


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"freeze_at": -1}, "p.yaml: freeze_at: -1 must be a share of a budget"),
        ({"freeze_at": 0.5}, "p.yaml: slow_at: 0.25 must not be below freeze_at, 0.5"),
        ({"without_data": "hope"}, "p.yaml: without_data: 'hope' is none of free, slow, frozen"),
        ({"more": 1}, "p.yaml: more: no such key here"),
    ],
)
def test_a_wrong_policy_names_place_and_remedy(change: dict[str, object], says: str) -> None:
    """Each mistake is answered with file, key and what to do."""
    with pytest.raises(SpecRefused) as refused:
        parse({"freeze_at": 0.0, "slow_at": 0.25, "without_data": "slow"} | change, "p.yaml")
    assert says in str(refused.value)
