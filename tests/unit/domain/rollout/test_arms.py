"""What a gateway can not have seen in a second, whoever says that it has."""

from dataclasses import replace
from typing import Any

import pytest

from penstock.domain.ids import Alias, TenantId, VersionId, WorkerId
from penstock.domain.rollout.arms import BUCKETS, ArmCounts, ArmSecond, Exposed, Priced, Stratum, Times, Worse, fault

ARM = ArmCounts(alias=Alias("chat"), version=VersionId("chat@1"), worker=WorkerId("w"), good=1, answers=1)
SECOND = ArmSecond(gateway="g", life="l", number=1, at=1, arms=(ARM,))
HUGE = 2**63


def times(bucket: int = 1, count: int = 1, prompt: int = 1, running: int = 1) -> tuple[Times, ...]:
    return (Times(Stratum(prompt, running), ((bucket, count),)),)


def test_a_second_that_can_be_has_no_fault() -> None:
    """Also one without an arm."""
    assert fault(SECOND) == fault(replace(SECOND, arms=())) == ""


@pytest.mark.parametrize(
    "changes",
    [{"number": 0}, {"number": HUGE}, {"at": -1}, {"at": HUGE}, {"left_out": -1}, {"left_out": HUGE}],
)
def test_a_second_has_a_number_and_a_time(changes: dict[str, Any]) -> None:
    """None is below what there is, and a number that no life comes to would silence the gateway whose name it has."""
    assert fault(replace(SECOND, **changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"price": times() * 2},
        {"price": times(count=2), "priced": (Priced(TenantId("t"), times() * 2),)},
        {"paired": ((2, 1), (2, 1))},
        {"paired": ((2, 2),), "priced": (Priced(TenantId("t"), paired=((2, 1), (2, 1))),)},
    ],
    ids=["a price", "a tenant's price", "a copy", "a tenant's copy"],
)
def test_a_price_is_told_once(changes: dict[str, Any]) -> None:
    """Twice the same place would count twice among all, and once among what nobody is named for."""
    assert fault(replace(SECOND, arms=(replace(ARM, **changes),))).endswith("told twice")


def test_prices_of_several_places_and_tenants_are_sound() -> None:
    """The same place may be two tenants', and a stratum may come with several."""
    whose = tuple(Priced(TenantId(who), times(), ((2, 1),)) for who in "tu")
    arm = replace(ARM, price=(*times(count=2), *times(bucket=7)), paired=((2, 2), (3, 1)), priced=whose)
    assert not fault(replace(SECOND, arms=(arm,)))


@pytest.mark.parametrize(
    "changes",
    [
        *[{name: wrong} for name in ("good", "bad", "refused", "answers", "json_asked") for wrong in (-1, HUGE)],
        *[{name: wrong} for name in ("prompt_tokens", "output_tokens") for wrong in (-1, HUGE)],
        {"worse": (Worse(TenantId("t"), "empty", 1),)},
        {"worse": (Worse(TenantId("t"), "good", 1),)},
        {"empty": 1, "worse": (Worse(TenantId("t"), "empty", 0),)},
        {"exposed": (Exposed(TenantId("t"), -1),)},
        {"exposed": (Exposed(TenantId("t"), HUGE),)},
        {"empty": 2},
        {"cut": 2},
        {"json_broken": 1},
        {"filtered": 1},
        {"shown": HUGE},
        {"ttft": times(bucket=-1)},
        {"ttft": times(bucket=BUCKETS)},
        {"itl": times(count=0)},
        {"itl": times(count=-5)},
        {"price": times(count=HUGE)},
        {"ttft": times(prompt=-1)},
        {"itl": times(running=HUGE)},
        {"differ": ((101, 1),)},
        {"differ": ((5, -1),)},
        {"priced": (Priced(TenantId("t"), times()),)},
        {"price": times(), "priced": (Priced(TenantId("t"), times()), Priced(TenantId("u"), times()))},
        {"price": times(), "priced": (Priced(TenantId("t"), times(count=-5)),)},
        {"paired": ((2, 1),), "priced": (Priced(TenantId("t"), paired=((3, 1),)),)},
        {"paired": ((2, 1),), "priced": (Priced(TenantId("t"), paired=((2, 0),)),)},
    ],
)
def test_an_arm_counts_what_a_second_can_hold(changes: dict[str, Any]) -> None:
    """Nothing negative or huge, no part above its whole, no stratum that there is not; so with a blast's tokens."""
    assert fault(replace(SECOND, arms=(ARM, replace(ARM, **changes))))
