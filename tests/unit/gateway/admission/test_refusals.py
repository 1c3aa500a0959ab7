"""A budget's refusal tells what is spent from what running requests hold, and when to come back."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from penstock.domain.errors import BudgetHeld, OverBudget, PenstockError
from penstock.domain.money import MicroUsd
from penstock.domain.tenancy.budget import day, month
from penstock.domain.tenancy.tenant import Plan
from tests.support.clock import ManualClock
from tests.unit.gateway.admission.test_reservations import Till


async def test_a_budgets_refusal_names_its_window_and_when_it_ends(clock: ManualClock) -> None:
    """The caller hears which of the budgets it is, what it was, and from when on there is another one."""
    till = Till(clock, Plan(spend_per_month=MicroUsd(30)))
    await till.close(await till.open(worst_case=16), 20)
    with pytest.raises(OverBudget) as refused:
        await till.open(worst_case=1)
    now = datetime.fromtimestamp(clock.now(), UTC)
    following = (now.replace(day=1) + timedelta(days=32)).replace(day=1)
    text = (
        f"the tenant's budget of $0.00003 for {now:%Y-%m} is used up; the month ends at {following:%Y-%m}-01T00:00:00Z"
    )
    assert refused.value.message == text
    assert refused.value.retry_after_s == pytest.approx(month(clock.now()).span.end - clock.now())
    assert refused.value.reason == "tenant_spend"


async def test_money_that_a_running_request_holds_comes_back_when_it_ends(clock: ManualClock) -> None:
    """A tenant that spent little is told of its own running answer and a short wait, not of a used-up month."""
    till = Till(clock, Plan(spend_per_month=MicroUsd(100)))
    await till.close(await till.open(prompt=0, worst_case=10), 10)
    running = await till.open(prompt=70, worst_case=1)
    with pytest.raises(BudgetHeld) as refused:
        await till.open(prompt=70, worst_case=1)
    assert re.fullmatch(
        r"the tenant's budget of \$0.0001 for [\d-]{7} has \$0.000009 left while running requests hold \$0.000071, "
        r"and this request may cost \$0.000071: come back when one of them has ended",
        refused.value.message,
    )
    assert refused.value.retry_after_s == pytest.approx(1.0)
    await till.close(running, 0)
    await till.open(prompt=60, worst_case=1)


async def test_who_asks_for_more_than_is_left_is_told_what_is_left(clock: ManualClock) -> None:
    """At 60 % of its day a budget is not used up: a smaller request is let in, and the refusal says so."""
    till = Till(clock, Plan(spend_per_day=MicroUsd(100)))
    await till.close(await till.open(prompt=50, worst_case=1), 50)
    with pytest.raises(OverBudget, match=r"has \$0.00004 left, and .* may cost \$0.000051: ask for fewer") as refused:
        await till.open(prompt=50, worst_case=1)
    assert type(refused.value) is OverBudget
    assert refused.value.retry_after_s == pytest.approx(day(clock.now()).span.end - clock.now())
    await till.open(prompt=30, worst_case=1)


async def test_a_request_larger_than_its_budget_is_not_told_to_come_back(clock: ManualClock) -> None:
    """What exceeds a budget all by itself hears what it may cost, and no time."""
    till = Till(clock, Plan(spend_per_day=MicroUsd(20)))
    with pytest.raises(OverBudget, match=r"may cost \$0.000026 and alone exceeds .*: ask for fewer tokens") as refused:
        await till.open(prompt=10, worst_case=100)
    assert refused.value.retry_after_s is None


async def test_an_answer_that_has_run_is_not_told_to_be_sent_again(clock: ManualClock) -> None:
    """A running answer that gets no more money ends as no refusal that invites a retry, whoever holds the money."""
    till = Till(clock, Plan(spend_per_day=MicroUsd(100)))
    heard: list[PenstockError] = []
    first = await till.open(prompt=0, worst_case=1000)
    await till.open(prompt=40, worst_case=1)
    first.lease.end_early = heard.append
    first.lease.delivered = 80
    await till.reservations.top_up()
    assert [type(error) for error in heard] == [OverBudget]
    assert "too little for the rest of this answer" in heard[0].message
