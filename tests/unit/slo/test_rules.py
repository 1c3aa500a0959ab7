"""From objectives to rules: what is counted, and promises that can't be watched, refused in words."""

from dataclasses import replace

import pytest

from penstock.apps import slos
from penstock.domain.models.model import Tier
from penstock.domain.outcome import Outcome
from penstock.domain.serving.slo import Indicator, Objective
from penstock.slo import rules
from penstock.slo.indicators import Unmeasurable, measure
from penstock.telemetry.definitions import MetricKind
from penstock.telemetry.names import CATALOGUE

WINDOWS = slos.windows()
CHAT = slos.load()[Tier.CHAT]


def objective(indicator: Indicator, *, good_ratio: float = 0.99, within_s: float = 0.0) -> Objective:
    return Objective(indicator=indicator, good_ratio=good_ratio, within_s=within_s)


@pytest.mark.parametrize("outcome", Outcome)
def test_what_a_caller_is_at_fault_for_is_no_event(outcome: Outcome) -> None:
    """An outcome is good, bad, or none of the platform's business: a flood of refused keys thins out no outage."""
    counted = measure("chat", objective(Indicator.AVAILABILITY))
    labels = {"tier": "chat", "outcome": outcome.value}
    assert counted.bad is not None
    assert counted.bad.takes("penstock_tier_requests_total", labels) == outcome.spends_error_budget
    is_event = outcome is Outcome.OK or outcome.spends_error_budget
    assert counted.events.takes("penstock_tier_requests_total", labels) == is_event
    assert not counted.events.takes("penstock_tier_requests_total", labels | {"tier": "batch"})


def test_what_is_selected_is_in_the_catalogue() -> None:
    """A renamed metric or label breaks this test and not the alarm."""
    ends = {MetricKind.COUNTER: ("_total",), MetricKind.HISTOGRAM: ("_count", "_bucket"), MetricKind.GAUGE: ("",)}
    known = {f"{one.name}{end}": {*one.labels, "le"} for one in CATALOGUE for end in ends[one.kind]}
    for tier in slos.load().values():
        for one in tier.objectives:
            counted = measure(tier.tier.value, one)
            for selection in filter(None, (counted.events, counted.bad, counted.good)):
                assert set(selection.labels) <= known[selection.series]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (objective(Indicator.TTFT, within_s=0.7), r"chat: ttft\.within_s: 0\.7 is no bucket .*; take 0\.5 or 1,"),
        (objective(Indicator.ITL, good_ratio=0.9, within_s=0.1), r"chat: itl\.good_ratio: 0\.9 is too low .* over 1h"),
    ],
    ids=["between buckets", "never fires"],
)
def test_a_promise_that_cannot_be_watched_is_refused(change: Objective, says: str) -> None:
    """Rules that would look right and never speak are not made."""
    with pytest.raises(Unmeasurable, match=says):
        rules.files({Tier.CHAT: replace(CHAT, objectives=(change,))}, WINDOWS)


def test_a_period_without_windows_is_refused() -> None:
    """A week has no pairs of windows here."""
    with pytest.raises(Unmeasurable, match=r"chat: window_days: no windows are known for 7; take 28 or 30"):
        rules.files({Tier.CHAT: replace(CHAT, window_days=7)}, WINDOWS)
