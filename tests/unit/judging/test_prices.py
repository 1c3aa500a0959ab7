"""What the judge makes of prices: copies beside their originals, and what a tenant can make of them by its habits."""

import random
from collections.abc import Iterable
from dataclasses import replace

import pytest

from penstock.apps import slos
from penstock.domain.ids import TenantId, VersionId, WorkerId
from penstock.domain.models.model import Tier
from penstock.domain.rollout.arms import ArmCounts, ArmSecond, Priced, Stratum
from penstock.domain.rollout.judgement import Metric, MetricFinding, Verdict
from penstock.judging.judge import LATE_S, Judge
from penstock.judging.sequential import ALONE
from tests.support.gateways.simulated_arms import ALIAS, LENGTHS, NEW, OLD, Regression, World, histograms


def price_of(seconds: Iterable[ArmSecond]) -> MetricFinding:
    """Return what is said of prices after these seconds."""
    return prices_of(seconds)[-1]


def prices_of(seconds: Iterable[ArmSecond]) -> list[MetricFinding]:
    """Return what is said of prices after each of these seconds."""
    found = list[MetricFinding]()
    judged, now = Judge(slos.gates(Tier.CHAT), ALIAS, OLD, NEW), 0.0
    for second in seconds:
        now = second.at + LATE_S
        assert judged.take(second, now)
        found += [one for one in judged.judgement(now).findings if one.metric is Metric.PRICE]
    return found


def paired(step: int, count: int = 60, tenants: tuple[str, ...] = ("a", "b")) -> list[ArmSecond]:
    """Return seconds with two copies each that are so dear beside their originals, and a little live traffic."""
    plain = World(seed=5, per_s=10.0, share=0.0).seconds(count)
    whose = tuple(Priced(TenantId(tenant), paired=((step, 2 // len(tenants)),)) for tenant in tenants)
    arm = ArmCounts(alias=ALIAS, version=NEW, worker=WorkerId("w-new"), paired=((step, 2),), priced=whose)
    return [replace(second, arms=(*second.arms, arm)) for second in plain]


@pytest.mark.parametrize(
    ("step", "verdict"),
    [(0, Verdict.PROMOTE), (2, Verdict.PROMOTE), (3, Verdict.HOLD), (4, Verdict.ABORT)],
    ids=["cheaper", "equal", "3 % dearer", "much dearer"],
)
def test_copies_are_as_dear_as_their_originals_or_held(step: int, verdict: Verdict) -> None:
    """An equal candidate is proven in a minute, 3 % more for each answer are held and never aborted."""
    price = price_of(paired(step, count=60 if step < 3 else 600))
    assert price.verdict is verdict, price.says


@pytest.mark.parametrize("tenants", [("a",), ()], ids=["one tenant's", "nobody's"])
def test_copies_of_one_tenant_alone_abort_nothing(tenants: tuple[str, ...]) -> None:
    """Its prompts may be those that the candidate answers at length: much dearer copies of it are held."""
    price = price_of(paired(4, count=600, tenants=tenants))
    assert (price.verdict, ALONE in price.says) == (Verdict.HOLD, True)


def paying(who: TenantId, version: str, per_s: int, place: int) -> ArmCounts:
    """Return a second's answers of one tenant that are all as dear as it wants them, in bodies of everybody's sizes."""
    where = [Stratum(tokens.bit_length(), 0) for tokens in LENGTHS]
    price = histograms([where[number % len(where)] for number in range(per_s)], [place] * per_s)
    worker = WorkerId(f"{version}-0")
    return ArmCounts(alias=ALIAS, version=VersionId(version), worker=worker, price=price, priced=(Priced(who, price),))


HABITS = {
    "never stop, at the candidate alone": (NEW, 1, 200),
    "one word, at the incumbent alone": (OLD, 9, 20),
}


@pytest.mark.parametrize("habit", HABITS)
@pytest.mark.parametrize(
    ("attackers", "verdict"), [(("mallory",), Verdict.HOLD), (("mallory", "trudy"), Verdict.ABORT)], ids=["one", "two"]
)
def test_a_tenant_that_pays_more_at_the_candidate_alone_aborts_nothing(
    habit: str, attackers: tuple[str, ...], verdict: Verdict
) -> None:
    """Either side's prices are a caller's to make: what is left without its own is an equal candidate's: a hold."""
    version, per_s, place = HABITS[habit]

    def attacked(second: ArmSecond) -> ArmSecond:
        each = tuple(paying(TenantId(who), version, per_s, place) for who in attackers)
        return replace(second, arms=(*second.arms, *each))

    price = price_of(attacked(second) for second in World(seed=8, per_s=2.0, share=0.25).seconds(900))
    assert (price.verdict, ALONE in price.says) == (verdict, verdict is Verdict.HOLD), price.says


BESIDE = {
    "more at the candidate than all others": (8, 5, 3, 0.2, 5),
    "all of the candidate": (8, 5, 2, 0.0, 5),
    "beside much traffic": (8, 20, 4, 0.1, 5),
    "there before the others": (9, 2, 1, 0.1, 1),
}


@pytest.mark.parametrize("habit", BESIDE)
def test_beside_many_tenants_with_more_answers_one_aborts_nothing(habit: str) -> None:
    """Most of a small candidate is little of all traffic, and is looked at all the same."""
    others, each, own, share, begins = BESIDE[habit]
    luck, where = random.Random(1), Stratum(10, 1)
    names = [f"t{number}" for number in range(others)]

    def arm(version: VersionId, answers: dict[str, list[int]]) -> ArmCounts:
        of = {who: histograms([where] * len(places), places) for who, places in answers.items() if places}
        everything = [place for places in answers.values() for place in places]
        price = histograms([where] * len(everything), everything)
        whose = tuple(Priced(TenantId(who), one) for who, one in of.items())
        return ArmCounts(alias=ALIAS, version=version, worker=WorkerId(f"{version}-0"), price=price, priced=whose)

    def second(number: int) -> ArmSecond:
        theirs = {who: [luck.randint(95, 125) for _ in range(each)] for who in names}
        mine = {who: [luck.randint(95, 125)] for who in names if luck.random() < share}
        mine["mallory"] = [150] * own if number >= begins else []
        arms = arm(OLD, theirs), arm(NEW, mine)
        return ArmSecond(gateway="g", life="l", number=number, at=1000 + number, arms=arms)

    seen = {one.verdict: one.says for one in prices_of(second(number) for number in range(1, 650))}
    assert Verdict.HOLD in seen
    assert Verdict.ABORT not in seen, seen


def test_a_dearer_candidate_is_aborted_though_a_tenant_makes_prices() -> None:
    """Twice the tokens for everybody speak against it without any one of them, an attacker among them or not."""
    worse = Regression(dearer=2.0)
    for attackers in ((), ("mallory",)):
        seconds = World(seed=8, per_s=8.0, share=0.25, regression=worse).seconds(600)
        each = tuple(paying(TenantId(who), NEW, 1, 200) for who in attackers)
        price = price_of(replace(one, arms=(*one.arms, *each)) for one in seconds)
        assert price.verdict is Verdict.ABORT, price.says
