"""The judge: what it counts and what not, and that nothing missing ever decides."""

import random
from collections.abc import Iterable
from dataclasses import replace
from itertools import count

import pytest

from penstock.apps import slos
from penstock.domain.ids import Alias, TenantId, VersionId
from penstock.domain.models.model import Tier
from penstock.domain.rollout.arms import WORSE, ArmCounts, ArmSecond, Times, Worse
from penstock.domain.rollout.judgement import Judgement, Metric, Verdict
from penstock.judging.judge import AHEAD_S, LATE_S, Judge
from tests.support.gateways.simulated_arms import ALIAS, NEW, OLD, Regression, World


def judge() -> Judge:
    return Judge(slos.gates(Tier.CHAT), ALIAS, OLD, NEW)


def after(seconds: Iterable[ArmSecond], judged: Judge | None = None) -> Judgement:
    """Return what a judge says when it has seen them as they came."""
    judged, said = judged or judge(), None
    for second in seconds:
        judged.take(second, second.at + 1.0)
        said = judged.judgement(second.at + 1.0)
    assert said is not None
    return said


def broken(count: int) -> list[ArmSecond]:
    return list(World(seed=1, per_s=40.0, share=0.25, regression=Regression(bad=1.0)).seconds(count))


def without(second: ArmSecond, version: str) -> ArmSecond:
    return replace(second, arms=tuple(arm for arm in second.arms if arm.version != version))


def test_an_equal_candidate_is_promoted_by_proof_on_every_count() -> None:
    """Each metric that the incumbent has evidence of is proven no worse, with the sample it takes."""
    said = after(World(seed=1, per_s=40.0, share=0.25).seconds(240))
    assert said.verdict is Verdict.PROMOTE
    assert {one.metric for one in said.findings} >= {Metric.TTFT, Metric.ITL, Metric.BAD}
    assert all(one.sample >= 100 for one in said.findings)


def test_a_broken_candidate_is_aborted_within_seconds_and_the_finding_says_why() -> None:
    """The finding that decides comes first, with its figures."""
    said = after(broken(8))
    assert said.verdict is Verdict.ABORT
    assert said.findings[0].metric is Metric.BAD
    assert "bad: " in said.findings[0].says


def test_it_says_what_part_of_the_tokens_the_candidate_had() -> None:
    """Of the last five minutes, by prompts and answers; of a few tokens it says nothing."""

    def with_tokens(second: ArmSecond) -> ArmSecond:
        many = {OLD: 300, NEW: 100 if second.at < 400 else 300}
        return replace(
            second,
            arms=tuple(
                replace(arm, prompt_tokens=many[arm.version] - 10, output_tokens=10)
                for arm in {one.version: one for one in second.arms}.values()
            ),
        )

    seconds = [with_tokens(one) for one in World(seed=3, per_s=40.0, share=0.5).seconds(750)]
    begins = seconds[0].at
    judged = judge()
    assert after(seconds[:5], judged).tokens_ratio is None
    assert after(seconds[5:390], judged).tokens_ratio == pytest.approx(0.25, abs=0.01)
    assert begins < 400
    assert after(seconds[390:], judged).tokens_ratio == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize(("slower_buckets", "is_found"), [(0, False), (1, False), (3, True)])
def test_what_nobody_would_notice_is_nothing_however_little_times_spread(slower_buckets: int, is_found: bool) -> None:
    """Every request takes as long: a few per cent more come into the next bucket, and a third more are found."""

    def like_a_clock(second: ArmSecond) -> ArmSecond:
        def arm(one: ArmCounts) -> ArmCounts:
            place = 30 + (slower_buckets if one.version == NEW else 0)
            pressed = tuple(Times(stratum, ((place, sum(many for _, many in counts)),)) for stratum, counts in one.ttft)
            return replace(one, ttft=pressed, itl=())

        return replace(second, arms=tuple(arm(one) for one in second.arms))

    said = after(like_a_clock(second) for second in World(seed=3, per_s=20.0, share=0.5).seconds(240))
    assert (said.verdict is Verdict.ABORT) == is_found


def test_no_evidence_decides_nothing() -> None:
    """Silence, a candidate without traffic and one without an incumbent wait: they never promote and never trigger."""
    assert judge().judgement(1000.0).verdict is Verdict.WAIT
    world = World(seed=2, per_s=40.0, share=0.25)
    for missing in (OLD, NEW):
        said = after(without(second, missing) for second in world.seconds(200))
        assert said.verdict is Verdict.WAIT
        assert all(one.verdict is not Verdict.ABORT for one in said.findings)


def test_a_gateway_that_falls_silent_changes_no_verdict() -> None:
    """What was known stays known; time alone adds nothing."""
    judged = judge()
    said = after(World(seed=3, per_s=20.0, share=0.1).seconds(40), judged)
    assert (said.verdict, judged.judgement(10_000.0).verdict) == (Verdict.WAIT, Verdict.WAIT)


def test_seconds_that_come_twice_late_or_too_early_count_once_or_never() -> None:
    """A repeated post, yesterday's gateway and a clock that is ahead add nothing."""
    judged, once = judge(), judge()
    for second in broken(4):
        assert once.take(second, second.at + 1.0)
        assert judged.take(second, second.at + 1.0)
        assert not judged.take(second, second.at + 1.0)
        assert not judged.take(replace(second, gateway="ahead", at=second.at + AHEAD_S + 5), second.at + 1.0)
    assert judged.judgement(20.0).findings == once.judgement(20.0).findings
    assert not judged.take(replace(broken(4)[0], gateway="late", number=99), 20.0)
    assert not judged.take(replace(broken(4)[-1], at=19 - LATE_S, number=1), 20.0)


def test_gateways_are_added_up_in_whatever_order_they_come() -> None:
    """Two that each saw half say what one would that saw all."""
    halves, whole = judge(), judge()
    for second in World(seed=4, per_s=30.0, share=0.3).seconds(60):
        whole.take(second, second.at + 1.0)
        first, other = replace(second, arms=second.arms[::2]), replace(second, gateway="h", arms=second.arms[1::2])
        for half in (first, other) if second.at % 2 else (other, first):
            assert halves.take(half, second.at + 2.0)
        if second.at % 7 == 0:
            halves.judgement(second.at + 1.0)
    at = 100.0
    assert [(one.metric, one.sample) for one in halves.judgement(at).findings] == [
        (one.metric, one.sample) for one in whole.judgement(at).findings
    ]


def test_another_alias_and_a_third_version_are_no_evidence() -> None:
    """Whoever named the version, or another alias that leads to it, is not judged here."""
    elsewhere = [replace(one, arms=tuple(replace(arm, alias=Alias("other")) for arm in one.arms)) for one in broken(10)]
    third = [
        replace(one, arms=tuple(replace(arm, version=VersionId("chat@third")) for arm in one.arms))
        for one in broken(10)
    ]
    assert after(elsewhere).findings == after(third).findings == ()


def test_a_new_stage_asks_for_a_new_proof_and_forgets_no_harm() -> None:
    """Promotion begins anew at each share; what speaks against the candidate stays."""
    judged = judge()
    assert after(World(seed=1, per_s=40.0, share=0.25).seconds(240), judged).verdict is Verdict.PROMOTE
    judged.next_stage()
    assert judged.judgement(245.0).verdict is Verdict.WAIT
    bad = judge()
    after(broken(8), bad)
    bad.next_stage()
    assert bad.judgement(12.0).verdict is Verdict.ABORT


def lame(second: ArmSecond) -> ArmSecond:
    """One of the incumbent's own workers is three times as slow."""

    def slow(arm: ArmCounts) -> ArmCounts:
        later = [Times(stratum, tuple((place + 12, many) for place, many in counts)) for stratum, counts in arm.ttft]
        return replace(arm, ttft=tuple(later))

    return replace(second, arms=tuple(slow(arm) if arm.worker == "old-0" else arm for arm in second.arms))


def test_where_equals_differ_the_judge_is_unfit_to_judge_times() -> None:
    """Nobody is promoted, held or aborted for times beside a lame incumbent."""
    said = after(lame(second) for second in World(seed=5, per_s=60.0, share=0.2).seconds(200))
    assert (said.verdict, "ttft" in said.unfit) == (Verdict.WAIT, True)


def test_an_unfit_judge_hides_no_bad_ends() -> None:
    """A candidate that fails is aborted whatever its incumbent's workers are like."""
    worse = Regression(bad=1.0, since=190)
    said = after(lame(second) for second in World(seed=5, per_s=60.0, share=0.2, regression=worse).seconds(200))
    assert (said.verdict, bool(said.unfit)) == (Verdict.ABORT, True)


def named(arm: ArmCounts, at: int, *tenants: str) -> ArmCounts:
    """Say whose each bad event was: the tenants' in turn."""
    counts = {what: getattr(arm, what) for what in WORSE}
    who = TenantId(tenants[at % len(tenants)])
    return replace(arm, worse=tuple(Worse(who, what, many) for what, many in counts.items() if many))


@pytest.mark.parametrize(
    ("field", "metric"),
    [
        ("refused", Metric.REFUSED),
        ("empty", Metric.EMPTY),
        ("cut", Metric.CUT),
        ("json_broken", Metric.JSON),
        ("filtered", Metric.FILTERED),
    ],
)
@pytest.mark.parametrize(
    ("tenants", "verdict"),
    [
        (("a", "b"), Verdict.ABORT),
        (("a",), Verdict.HOLD),
        (("a",) * 24 + ("b",), Verdict.HOLD),
        ((), Verdict.HOLD),
    ],
    ids=["two", "one", "one and a stray", "nobody knows whose"],
)
def test_one_tenant_alone_aborts_nothing(
    field: str, metric: Metric, tenants: tuple[str, ...], verdict: Verdict
) -> None:
    """Most of the candidate's answers are spoilt: by the word of two tenants it is aborted, by one's it is held."""

    def spoilt(arm: ArmCounts, at: int) -> ArmCounts:
        so = (2 * arm.answers + 2) // 3 if arm.version == NEW else 0
        worse = {"json_asked": arm.answers, "shown": arm.answers, field: so}
        found = replace(arm, **worse)  # type: ignore[arg-type]  # fields by name
        return named(found, at, *tenants) if tenants else found

    seconds = World(seed=6, per_s=16.0, share=0.25).seconds(50)
    said = after(replace(one, arms=tuple(spoilt(arm, one.at) for arm in one.arms)) for one in seconds)
    assert (said.verdict, said.findings[0].metric) == (verdict, metric), said.findings[0].says


@pytest.mark.parametrize(
    ("field", "metric"), [("empty", Metric.EMPTY), ("cut", Metric.CUT), ("json_broken", Metric.JSON)]
)
def test_answers_that_are_worth_less_are_found_by_their_rates(field: str, metric: Metric) -> None:
    """All of the candidate's answers are empty, cut or broken, and few of the incumbent's."""

    def worse(arm: ArmCounts, at: int) -> ArmCounts:
        so = arm.answers if arm.version == NEW else arm.answers // 10
        empty, cut, broken_json = (so if field == name else 0 for name in ("empty", "cut", "json_broken"))
        found = replace(arm, json_asked=arm.answers, empty=empty, cut=cut, json_broken=broken_json)
        return named(found, at, "a", "b", "c")

    seconds = World(seed=6, per_s=40.0, share=0.25).seconds(60)
    said = after(replace(second, arms=tuple(worse(arm, second.at) for arm in second.arms)) for second in seconds)
    assert (said.verdict, said.findings[0].metric) == (Verdict.ABORT, metric)


def test_nobody_waits_for_a_proof_of_what_few_ask_for() -> None:
    """One caller in forty asks for JSON: an equal candidate is promoted as soon as without it, and harm still shows."""

    def some(arm: ArmCounts, at: int, broken: int) -> ArmCounts:
        asked = min(arm.answers, 1)
        return named(replace(arm, json_asked=asked, json_broken=asked * broken), at, "a", "b", "c")

    seconds = list(World(seed=1, per_s=40.0, share=0.25).seconds(240))
    plain = after(seconds)
    equal = after(replace(one, arms=tuple(some(arm, one.at, 0) for arm in one.arms)) for one in seconds)
    assert (plain.verdict, equal.verdict) == (Verdict.PROMOTE, Verdict.PROMOTE)
    worse = after(
        replace(one, arms=tuple(some(arm, one.at, int(arm.version == NEW)) for arm in one.arms)) for one in seconds
    )
    assert (worse.verdict, worse.findings[0].metric) == (Verdict.ABORT, Metric.JSON)


def test_nobody_waits_for_answers_whose_end_their_callers_steer() -> None:
    """One in forty leaves it to the model: an equal candidate is promoted, and the few still speak against a worse."""

    def some(arm: ArmCounts, at: int, empty: int) -> ArmCounts:
        answers = int(at % 10 == 0)
        return replace(arm, answers=answers, empty=answers * empty, price=arm.price[:1] if answers else (), priced=())

    seconds = list(World(seed=1, per_s=40.0, share=0.25).seconds(240))
    equal = after(replace(one, arms=tuple(some(arm, one.at, 0) for arm in one.arms)) for one in seconds)
    assert equal.verdict is Verdict.PROMOTE
    worse = after(
        replace(one, arms=tuple(some(arm, one.at, int(arm.version == NEW)) for arm in one.arms)) for one in seconds
    )
    assert worse.findings[0].metric is Metric.EMPTY
    assert worse.verdict in (Verdict.ABORT, Verdict.HOLD)


def test_a_candidate_that_has_everything_is_judged_by_its_promises() -> None:
    """At 100 % there is no incumbent to compare with: its own ends prove it, and bad ones still abort."""
    judged = judge()
    judged.has_everything = True
    seconds = list(World(seed=7, per_s=40.0, share=0.5).seconds(60))
    assert after((without(second, OLD) for second in seconds), judged).verdict is Verdict.PROMOTE
    beside = judge()
    after(World(seed=7, per_s=40.0, share=0.5).seconds(60), beside)
    beside.next_stage()
    beside.has_everything = True
    later = (replace(second, at=second.at + 60, number=second.number + 60) for second in seconds)
    assert after((without(second, OLD) for second in later), beside).verdict is Verdict.PROMOTE
    bad = judge()
    bad.has_everything = True
    assert after((without(second, OLD) for second in broken(8)), bad).verdict is Verdict.ABORT


def scored(seconds: Iterable[ArmSecond], ratio: float, *, seed: int = 1) -> list[ArmSecond]:
    """Have one answer a second scored: of each of its 48 tokens this part differs."""
    chance = random.Random(seed)

    def differing(second: ArmSecond) -> ArmSecond:
        percent = round(100 * sum(chance.random() < ratio for _ in range(48)) / 48)
        first = next((arm for arm in second.arms if arm.version == NEW), None)
        arms = tuple(replace(arm, differ=((percent, 1),)) if arm is first else arm for arm in second.arms)
        return replace(second, arms=arms)

    return [differing(one) for one in seconds]


def unseen() -> Judge:
    """Return the judge of a candidate whose answers no caller has seen."""
    found = judge()
    found.needs_answers = True
    return found


def test_what_nobody_has_scored_is_not_proven() -> None:
    """Before callers see them, a model's answers need a proof of their own; later, nothing there says nothing."""
    answering = [
        replace(one, arms=tuple(replace(arm, answers=3) for arm in one.arms))
        for one in World(seed=1, per_s=40.0, share=0.25).seconds(240)
    ]
    said = after(answering, unseen())
    assert said.verdict is Verdict.WAIT
    (finding,) = [one for one in said.findings if one.metric is Metric.ANSWERS]
    assert finding.says.startswith("answers: nothing yet of the tokens of 0 answers would have been others")
    assert (finding.strength, finding.sample) == (None, 0)
    assert after(answering).verdict is Verdict.PROMOTE


@pytest.mark.parametrize("ratio", [0.018, 0.032])
def test_rounding_is_proven_to_be_nothing(ratio: float) -> None:
    """Another precision, or eight bits, as measured on real weights."""
    said = after(scored(World(seed=1, per_s=40.0, share=0.25).seconds(240), ratio), unseen())
    assert said.verdict is Verdict.PROMOTE


@pytest.mark.parametrize(("ratio", "verdict", "most"), [(0.279, Verdict.ABORT, 15), (0.124, Verdict.HOLD, 60)])
def test_another_model_is_found_though_it_passes_golden_prompts(ratio: float, verdict: Verdict, most: int) -> None:
    """Four bits by rounding, and a wrong position base, as measured on real weights; most of ten seeds within this."""
    found = []
    for seed in range(10):
        judged = unseen()
        for second, seen in zip(scored(World(seed=1, per_s=4.0, share=0.25).seconds(300), ratio, seed=seed), count()):
            said = after([second], judged)
            if (Metric.ANSWERS, verdict) in [(one.metric, one.verdict) for one in said.findings]:
                found.append(seen)
                break
    assert len(found) == 10
    assert sorted(found)[7] <= most + LATE_S


def test_a_rollout_that_began_by_a_clock_ahead_is_judged_all_the_same() -> None:
    """What was told before it counts for nothing, and it need not wait for an hour that was never one."""
    hour = Judge(slos.gates(Tier.CHAT), ALIAS, OLD, NEW, since=3_600.0)
    before, later = broken(24)[:8], broken(24)[8:]
    hour.judgement(0.0)
    for second in before:
        assert not hour.take(second, second.at + 1.0)
    hour.follow_clock(9.0)
    assert after(later, hour).verdict is Verdict.ABORT


def test_who_looks_again_gets_the_last_word_until_something_comes() -> None:
    """A tick looks twice at each judge: nothing is worked out again, and nothing is old."""
    judged = judge()
    said = after(World(seed=1, per_s=40.0, share=0.25).seconds(60), judged)
    assert judged.judgement(said.at) is said
    later = judged.judgement(said.at + 0.5)
    assert (later.at, later.findings) == (said.at + 0.5, said.findings)
    judged.has_everything = True
    assert judged.judgement(said.at + 0.5).findings != said.findings
