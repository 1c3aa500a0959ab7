from itertools import repeat

import pytest

from loadtests.drive.records import End, Health, Record
from loadtests.plan.scenario import Mix, Scenario, Tenant
from loadtests.verdict.judging import Exit, Finding, Judged, Verdict, judge
from penstock.domain.models.model import Tier
from penstock.domain.serving.slo import Indicator, Objective, SloTier

PROMISES = {
    Tier.CHAT: SloTier(
        tier=Tier.CHAT,
        says="",
        window_days=28,
        deadline_s=60,
        objectives=(
            Objective(indicator=Indicator.AVAILABILITY, good_ratio=0.99),
            Objective(indicator=Indicator.TTFT, good_ratio=0.9, within_s=1.0),
        ),
    )
}
SCENARIO = Scenario(says="", mix="", per_s=1, duration_s=60, lengths="azure-conversation")
EXPECTED = Scenario(says="", mix="", per_s=1, duration_s=60, lengths="azure-conversation", refusals="expected")
MIX = Mix(says="", tenants=(Tenant(name="a"), Tenant(name="b")))


def whole(tenant: str = "a", *, ttft_s: float = 0.2, lag_s: float = 0.0) -> Record:
    return Record(
        tenant=tenant,
        planned_at=1.0,
        began_at=1.0 + lag_s,
        first_at=1.0 + ttft_s,
        ended_at=2.0 + ttft_s,
        gaps_s=[0.02, 0.03],
        end=End.WHOLE,
        status=200,
    )


def ended(
    end: End, *, tenant: str = "a", status: int = 0, retry_after_s: float | None = None, at: float = 1.1
) -> Record:
    return Record(
        tenant=tenant, planned_at=1.0, began_at=1.0, ended_at=at, end=end, status=status, retry_after_s=retry_after_s
    )


def verdict(*records: Record, scenario: Scenario = SCENARIO, mix: Mix = MIX, health: Health | None = None) -> Verdict:
    fine = Health(sessions=len(records), held=len(records), pulses=[(0.0, 0.001)] * 100)
    return judge(records, health or fine, scenario, mix, PROMISES)


def of(found: Verdict, indicator: Indicator, tenant: str = "") -> Judged:
    return next(one for one in found.judged if one.objective.indicator is indicator and one.tenant == tenant)


def test_a_run_that_keeps_every_promise_ends_with_0() -> None:
    """Good requests of all tenants are a kept promise each."""
    found = verdict(*repeat(whole("a"), 20), *repeat(whole("b"), 20))
    assert {one.finding for one in found.judged} == {Finding.KEPT}
    assert found.exit is Exit.KEPT


def test_slow_first_tokens_end_with_1() -> None:
    """A promise with more bad events than its budget is broken."""
    found = verdict(*repeat(whole(), 35), *repeat(whole(ttft_s=1.5), 5))
    assert of(found, Indicator.TTFT).finding is Finding.BROKEN
    assert found.exit is Exit.BROKEN


def test_one_tenants_broken_promise_is_seen_behind_good_sums() -> None:
    """A tier that is well in all may still break its promise to one of its tenants."""
    found = verdict(*repeat(whole("a"), 280), *repeat(whole("b", ttft_s=3.0), 20))
    assert of(found, Indicator.TTFT).finding is Finding.KEPT
    assert of(found, Indicator.TTFT, "b").finding is Finding.BROKEN
    assert found.exit is Exit.BROKEN


def test_a_neighbour_that_is_not_judged_decides_nothing() -> None:
    """Its figures are found and shown, and neither they nor their sum make the exit."""
    mix = Mix(says="", tenants=(Tenant(name="a"), Tenant(name="b", judged=False)))
    found = verdict(*repeat(whole("a"), 40), *repeat(ended(End.FAILED, tenant="b", status=500), 400), mix=mix)
    assert of(found, Indicator.AVAILABILITY, "b").finding is Finding.BROKEN
    assert of(found, Indicator.AVAILABILITY).events == 40
    assert found.exit is Exit.KEPT


def test_refusals_are_no_fast_answers() -> None:
    """Requests that are refused at once add nothing to the share of quick first tokens."""
    refused = repeat(ended(End.REFUSED, status=503, retry_after_s=2.0), 400)
    found = verdict(*repeat(whole(), 30), *repeat(whole(ttft_s=2.0), 10), *refused, scenario=EXPECTED)
    assert of(found, Indicator.TTFT).good_ratio == 0.75
    assert of(found, Indicator.TTFT).events == 40


@pytest.mark.parametrize(
    ("scenario", "record", "events", "bad"),
    [
        pytest.param(SCENARIO, ended(End.REFUSED, status=503, retry_after_s=2.0), 1, 1, id="no capacity"),
        pytest.param(EXPECTED, ended(End.REFUSED, status=503, retry_after_s=2.0), 0, 0, id="expected"),
        pytest.param(EXPECTED, ended(End.REFUSED, status=503), 1, 1, id="expected, not saying when"),
        pytest.param(SCENARIO, ended(End.REFUSED, status=429, retry_after_s=2.0), 0, 0, id="its own limit"),
        pytest.param(SCENARIO, ended(End.REFUSED, status=429), 1, 1, id="its own limit, not saying when"),
        pytest.param(SCENARIO, ended(End.WRONG, status=401), 0, 0, id="the caller's fault"),
        pytest.param(SCENARIO, ended(End.LEFT, status=200), 0, 0, id="hung up by plan"),
        pytest.param(SCENARIO, ended(End.LATE), 1, 1, id="late"),
        pytest.param(SCENARIO, ended(End.BROKEN), 1, 1, id="broken"),
        pytest.param(SCENARIO, ended(End.FAILED, status=502), 1, 1, id="failed"),
    ],
)
def test_what_counts_against_availability(scenario: Scenario, record: Record, events: int, bad: int) -> None:
    """Each end of a request is good, bad or no event, and a refusal without a time to come back is always bad."""
    found = of(verdict(record, scenario=scenario), Indicator.AVAILABILITY)
    assert (found.events, found.bad) == (events, bad)


@pytest.mark.parametrize(("waited_s", "bad"), [(5.0, 1), (0.5, 0)])
def test_who_never_saw_a_first_token_waited_too_long(waited_s: float, bad: int) -> None:
    """A request without any token is bad once it waited longer than promised; before that nobody knows."""
    found = of(verdict(ended(End.LATE, at=1.0 + waited_s)), Indicator.TTFT)
    assert (found.events, found.bad) == (bad, bad)


def test_too_few_events_are_unknown_and_never_kept() -> None:
    """A run of five good requests keeps no promise, and ends with 2 and the reason."""
    found = verdict(*repeat(whole(), 5))
    assert {one.finding for one in found.judged if not one.tenant} == {Finding.UNKNOWN}
    assert found.exit is Exit.SAYS_NOTHING
    assert "5 events" in found.reasons[0]


def test_no_events_have_no_share() -> None:
    """Where nothing was seen the share is unknown, neither 0 nor 1."""
    found = of(verdict(ended(End.WRONG, status=401)), Indicator.AVAILABILITY)
    assert found.good_ratio is None
    assert found.finding is Finding.UNKNOWN


def test_few_events_break_what_no_others_could_mend() -> None:
    """Four failures of five are a broken promise, though five events are too few to keep one."""
    found = verdict(whole(), *repeat(ended(End.FAILED, status=500), 4))
    assert of(found, Indicator.AVAILABILITY).finding is Finding.BROKEN


@pytest.mark.parametrize(
    ("records", "health", "why"),
    [
        pytest.param([whole(lag_s=0.3)] * 40, None, "sent 300 ms late at p99, 100 ms are allowed", id="late"),
        pytest.param(
            [whole()] * 40, Health(sessions=40, held=40, pulses=[(1.0, 0.4)] * 9), "woke up 400 ms late", id="stalled"
        ),
        pytest.param([whole()] * 40, Health(sessions=50, held=40, pulses=[(1.0, 0.0)]), "10 of 50", id="unfinished"),
        pytest.param([], Health(sessions=0, held=0, pulses=[]), "nothing was sent", id="nothing"),
    ],
)
def test_a_generator_that_was_the_bottleneck_leaves_no_verdict(
    records: list[Record], health: Health | None, why: str
) -> None:
    """However good or bad the figures, a late, stalled or unfinished generator ends with 2 and says so."""
    found = verdict(*records, health=health)
    assert found.exit is Exit.SAYS_NOTHING
    assert any(why in reason for reason in found.reasons)


def test_a_generator_that_died_leaves_no_verdict() -> None:
    """Without the generator's own account of its end nothing is judged."""
    found = judge([whole()] * 40, None, SCENARIO, MIX, PROMISES)
    assert found.exit is Exit.SAYS_NOTHING
    assert found.reasons[0] == "the generator ended before its plan did"
