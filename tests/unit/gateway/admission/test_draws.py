"""Plans become draws without surprises."""

from datetime import UTC, datetime

import pytest

from penstock.domain.ids import VersionId
from penstock.domain.money import MicroUsd
from penstock.domain.tenancy.limits import Measure
from penstock.domain.tenancy.tenant import Plan
from penstock.gateway.admission.draws import Need, Scope, draws

NEED = Need(version=VersionId("m@1"), tokens=300, cost=MicroUsd(42), stream=True)
FULL = Plan(
    max_concurrent=5,
    max_streams=3,
    requests_per_min=60,
    tokens_per_min=6000,
    spend_per_day=MicroUsd(1000),
    spend_per_month=MicroUsd(9000),
)


def test_a_plan_without_bounds_draws_nothing() -> None:
    """Zero means no bound, so the store is not even asked."""
    assert draws((Scope(name="tenant:t", plan=Plan()),), NEED, 0.0) == ()


def test_every_bound_becomes_one_draw() -> None:
    """Amounts, sizes and refills are those of the plan."""
    by_measure = {d.measure: d for d in draws((Scope(name="tenant:t", plan=FULL),), NEED, 0.0)}
    assert by_measure[Measure.TOKENS].amount == 300
    assert by_measure[Measure.TOKENS].refill_per_s == pytest.approx(100.0)
    assert by_measure[Measure.REQUESTS].capacity == 60
    assert by_measure[Measure.STREAMS].capacity == 3
    assert by_measure[Measure.CONCURRENCY].capacity == 5


def test_only_streams_draw_on_the_stream_bound() -> None:
    """A unary request takes no stream slot."""
    unary = Need(version=NEED.version, tokens=1, cost=MicroUsd(1), stream=False)
    assert Measure.STREAMS not in {d.measure for d in draws((Scope(name="t", plan=FULL),), unary, 0.0)}


def test_scopes_have_meters_of_their_own() -> None:
    """Key, tenant and organisation are drawn on together, under different names."""
    scopes = tuple(Scope(name=name, plan=FULL) for name in ("key:k", "tenant:t", "org:o"))
    keys = [d.key for d in draws(scopes, NEED, 0.0)]
    assert len(keys) == len(set(keys)) == 18


@pytest.mark.parametrize(
    ("moment", "day", "month"),
    [
        (datetime(2026, 2, 28, 23, 59, tzinfo=UTC), 60.0, 60.0),
        (datetime(2026, 12, 31, 0, 0, tzinfo=UTC), 86_400.0, 86_400.0),
        (datetime(2026, 1, 1, 12, 0, tzinfo=UTC), 43_200.0, 30.5 * 86_400),
    ],
)
def test_budget_windows_are_calendar_days_and_months(moment: datetime, day: float, month: float) -> None:
    """A refusal for spend says when the window ends."""
    spends = [d for d in draws((Scope(name="t", plan=FULL),), NEED, moment.timestamp()) if d.measure is Measure.SPEND]
    assert [d.window_ends_in_s for d in spends] == pytest.approx([day, month])
    assert [d.key for d in spends] == [f"t:spend:{moment:%Y-%m-%d}", f"t:spend:{moment:%Y-%m}"]
