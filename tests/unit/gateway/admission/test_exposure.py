"""A budget near its end is held by what may be taken, not by what its callers taught (finding 5)."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.errors import OverBudget
from penstock.domain.money import MicroUsd
from penstock.domain.tenancy.limits import Draw, Measure, MeterKind
from penstock.domain.tenancy.tenant import Plan
from penstock.gateway.admission.exposure import Exposure
from tests.support.clock import ManualClock
from tests.unit.gateway.admission.test_reservations import Till


def spend(amount: int, key: str = "tenant:t:spend") -> Draw:
    return Draw(key=key, kind=MeterKind.BUDGET, measure=Measure.SPEND, amount=amount, capacity=10_000)


def held(exposure: Exposure, expected: int, worst: int) -> int:
    (draw,) = exposure.hold((spend(expected),), worst)
    return draw.amount


def test_far_from_its_end_what_is_usual_is_held() -> None:
    """A budget that all running worst cases fit into does not fill at no spend."""
    exposure = Exposure()
    exposure.saw((spend(1),), (10_000,))
    for _ in range(9):
        assert held(exposure, 10, 1000) == 10
        exposure.change((spend(10),), 990)
    assert held(exposure, 10, 1000) == 10
    exposure.change((spend(10),), 990)
    assert held(exposure, 10, 1000) == 1000


def test_where_nothing_is_known_the_worst_case_is_held() -> None:
    """A meter that this gateway never asked may be at its end."""
    assert held(Exposure(), 10, 1000) == 1000


def test_a_wish_larger_than_the_budget_leaves_room_for_others() -> None:
    """Near the end a request holds a quarter of what is left, and never less than it will probably take."""
    exposure = Exposure()
    exposure.saw((spend(1),), (400,))
    assert held(exposure, 10, 100_000) == 100
    assert held(exposure, 300, 100_000) == 300


@given(st.lists(st.tuples(st.integers(1, 200), st.integers(0, 2000)), max_size=60), st.integers(0, 5000))
def test_what_is_held_is_between_the_usual_and_the_worst(asked: list[tuple[int, int]], left: int) -> None:
    """Whatever ran before, a request holds what it will probably take at least, and its worst case at most."""
    exposure = Exposure()
    for expected, beyond in asked:
        exposure.saw((spend(1),), (left,))
        amount = held(exposure, expected, expected + beyond)
        assert expected <= amount <= max(expected, expected + beyond)
        left = max(0, left - amount)
        exposure.change((spend(amount),), expected + beyond - amount)


def test_requests_without_a_budget_are_left_alone() -> None:
    """Rates and slots are drawn as they are."""
    slot = Draw(key="c", kind=MeterKind.SLOTS, measure=Measure.CONCURRENCY, amount=1, capacity=2)
    assert Exposure().hold((slot,), 10**6) == (slot,)


async def test_a_caller_that_taught_short_answers_holds_what_it_asks_for(clock: ManualClock) -> None:
    """Finding 5: after 400 answers of one token, 120 wishes of 500 don't all start on a budget of 2,000."""
    till = Till(clock, Plan(spend_per_day=MicroUsd(2_400)))
    for _ in range(36):
        await till.close(await till.open(prompt=0, worst_case=500), 1)
    running = []
    for _ in range(120):
        try:
            running.append(await till.open(prompt=0, worst_case=500))
        except OverBudget:
            break
    spent = sum(row.cost for row in till.journal.rows)
    promised = sum(one.reserved_output for one in running)
    assert promised <= 2_400 - spent
    assert promised >= 0.9 * (2_400 - spent)
    assert len(running) < 40
    for one in running:
        await till.close(one, 1)
    assert len(till.reservations._exposure._open) == 0
