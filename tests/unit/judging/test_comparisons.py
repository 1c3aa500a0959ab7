"""Judges of versions that share an alias: who is judged beside whom, and that they follow the routes."""

from dataclasses import replace

import pytest

from penstock.apps import slos
from penstock.control.rollout.evidence import FOLLOW_EVERY_S, ComparisonWatch, EvidenceReader
from penstock.domain.fleet.table import Route, Share
from penstock.domain.fleet.versions import Catalogue
from penstock.domain.ids import VersionId
from penstock.domain.models.model import Tier
from penstock.domain.rollout.arms import ArmCounts, Stratum, Times, fault
from penstock.domain.rollout.judgement import Verdict
from penstock.domain.rollout.rollout import STAGES, Rollout
from penstock.judging.comparisons import Comparisons, VersionPair, pairs
from tests.support.clock import ManualClock
from tests.support.gateways.simulated_arms import ALIAS, NEW, OLD, Regression, World
from tests.twins.arms import MemoryArms

THIRD = VersionId("chat@third")
TIERS = dict.fromkeys((OLD, NEW, THIRD), Tier.CHAT)


def route(**weights: int) -> Route:
    names = {"old": OLD, "new": NEW, "third": THIRD}
    return Route(alias=ALIAS, shares=tuple(Share(version=names[name], weight=many) for name, many in weights.items()))


def test_each_lesser_share_is_judged_beside_the_largest() -> None:
    """One alone, or beside versions without a share, has nobody beside it."""
    assert pairs(route(old=10_000)) == pairs(route(old=10_000, new=0)) == ()
    assert pairs(route(old=9_500, new=500)) == (VersionPair(ALIAS, OLD, NEW),)
    assert pairs(route(new=2_000, old=7_000, third=1_000)) == (
        VersionPair(ALIAS, OLD, NEW),
        VersionPair(ALIAS, OLD, THIRD),
    )


def test_judges_follow_the_routes() -> None:
    """A change of weights keeps the evidence of a pair; a pair that goes takes it along."""
    comparisons = Comparisons(slos.gates)
    comparisons.follow([route(old=5_000, new=5_000)], TIERS)
    for second in World(seed=1, per_s=40.0, share=0.5, regression=Regression(bad=1.0)).seconds(10):
        assert comparisons.take(second, float(second.at))
    ((pair, judgement),) = comparisons.judged(ALIAS)
    assert (pair.candidate, judgement.verdict) == (NEW, Verdict.ABORT)
    comparisons.follow([route(old=9_000, new=1_000)], TIERS)
    assert comparisons.judged(ALIAS)[0][1].verdict is Verdict.ABORT
    comparisons.follow([route(old=10_000)], TIERS)
    assert comparisons.judged() == ()
    comparisons.follow([route(old=9_000, new=1_000)], TIERS)
    assert comparisons.judged(ALIAS)[0][1].findings == ()


def test_a_rollout_begins_without_what_was_known_before_it() -> None:
    """The pair was judged, and rolled out before: neither an old proof nor an old harm decides on another rollout."""
    comparisons = Comparisons(slos.gates)
    comparisons.follow([route(old=5_000, new=5_000)], TIERS)
    seconds = list(World(seed=1, per_s=40.0, share=0.5, regression=Regression(bad=1.0)).seconds(20))
    first = Rollout(id="r1", alias=ALIAS, incumbent=OLD, candidate=NEW, stages=STAGES[1:], since=float(seconds[9].at))
    for second in seconds[:10]:
        comparisons.take(second, float(second.at))
    comparisons.roll([first], TIERS)
    assert not comparisons.take(seconds[9], float(seconds[9].at))
    judged = comparisons.judgement(first)
    assert judged is not None
    assert judged.findings == ()
    for second in seconds[10:]:
        comparisons.take(second, float(second.at))
    comparisons.roll([first], TIERS)
    judged = comparisons.judgement(first)
    assert judged is not None
    assert judged.verdict is Verdict.ABORT
    again = replace(first, id="r2", since=float(seconds[-1].at))
    comparisons.roll([again], TIERS)
    judged = comparisons.judgement(again)
    assert judged is not None
    assert judged.findings == ()


def test_a_persons_promotion_asks_for_a_new_proof() -> None:
    """Another share is another load, whoever has led there."""
    comparisons = Comparisons(slos.gates)
    first = Rollout(id="r1", alias=ALIAS, incumbent=OLD, candidate=NEW, stages=STAGES[1:])
    comparisons.roll([first], TIERS)
    for second in World(seed=1, per_s=40.0, share=0.25).seconds(240):
        comparisons.take(second, float(second.at))
    judged = comparisons.judgement(first)
    assert judged is not None
    assert judged.verdict is Verdict.PROMOTE
    promoted = replace(first, stage=1, by_person=True)
    comparisons.roll([promoted], TIERS)
    judged = comparisons.judgement(promoted)
    assert judged is not None
    assert judged.verdict is Verdict.WAIT


def test_a_version_that_nobody_knows_is_not_judged() -> None:
    """Without its tier there is no promise to hold it against."""
    comparisons = Comparisons(slos.gates)
    comparisons.follow([route(old=5_000, new=5_000)], {})
    assert comparisons.judged() == ()


async def test_the_watch_reads_what_gateways_tell_and_follows_the_routes(clock: ManualClock) -> None:
    """From the store to the judgement, as a controller runs it, whatever the gateways' own clocks say."""
    known, store = [Catalogue(routes=(route(old=7_500, new=2_500),))], MemoryArms(clock)
    comparisons = Comparisons(slos.gates)
    comparisons.follow(known[0].routes, TIERS)

    async def catalogue() -> Catalogue:
        return known[0]

    watch = ComparisonWatch(clock, catalogue, EvidenceReader(store, comparisons.take), comparisons)
    watch._followed_at = clock.monotonic()
    for second in World(seed=2, per_s=40.0, share=0.25, regression=Regression(bad=1.0)).seconds(10):
        await store.tell(replace(second, at=second.at + 86_400 * (second.at % 2)))
        clock.advance(1.0)
        watch._followed_at = clock.monotonic()
        await watch.look()
    assert comparisons.judged(ALIAS)[0][1].verdict is Verdict.ABORT
    known[0] = Catalogue()
    clock.advance(FOLLOW_EVERY_S)
    await watch.look()
    assert comparisons.judged() == ()


@pytest.mark.parametrize(
    "changes",
    [
        {"good": -1},
        {"bad": 1 << 63},
        {"answers": 1, "empty": 2},
        {"answers": 1, "cut": 2},
        {"json_broken": 1},
        {"ttft": (Times(Stratum(3, 3), ((110, 1),)),)},
        {"ttft": (Times(Stratum(3, 3), ((-1, 1),)),)},
        {"itl": (Times(Stratum(3, 3), ((5, -1),)),)},
        {"itl": (Times(Stratum(65, 3), ((5, 1),)),)},
        {"price": (Times(Stratum(3, 3), ((330, 1),)),)},
        {"ttft": (Times(Stratum(3, 3), ((5, 1 << 40),)),)},
    ],
    ids=str,
)
def test_evidence_that_can_t_be_is_named(changes: dict[str, object]) -> None:
    """Whoever forges a second can't say what no second can hold."""
    (second,) = World(seed=1, per_s=20.0, share=0.2).seconds(1)
    assert fault(second) == ""
    arm: ArmCounts = replace(second.arms[0], **changes)  # type: ignore[arg-type]  # fields by name
    assert fault(replace(second, arms=(arm,))) != ""
    assert fault(replace(second, number=0)) != ""
