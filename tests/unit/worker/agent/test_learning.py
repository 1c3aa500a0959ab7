"""The agent learns a curve from what the engine's log tells, and only if it has seen enough."""

from typing import Any

import pytest

from penstock.domain.errors import InvalidField
from penstock.domain.models.curves import MOST_DISTURBED, Origin
from penstock.domain.models.steps import StepBatch
from penstock.worker.agent.learning import EVERY_S, FIRST_STEPS, GROWN, Learning, curve_of
from tests.support.clock import ManualClock
from tests.support.samples.curves import SMOLLM2

BATCHES = [StepBatch(b, p, b * c, p * p / 2) for b in (1, 4, 16) for p in (0, 64) for c in (50, 500)]


def told(steps: int = 1000, *, factor: float = 1.0, known: int = len(BATCHES), disturbed: int = 0) -> dict[str, Any]:
    points = [[*one, factor * SMOLLM2.of(one)] for one in BATCHES[:known]]
    return {"hardware": "cpu x1", "steps": steps, "disturbed": disturbed, "points": points}


def test_a_log_becomes_a_curve() -> None:
    """With its hardware, date, origin, and no error where there is no noise."""
    found = curve_of(told(), Origin.SERVED, 5000.0)
    assert (found.hardware, found.origin, found.measured_at, found.points) == ("cpu x1", Origin.SERVED, 5000.0, 12)
    assert found.error_p90 < 1e-3
    assert found.model.of(StepBatch(8, 0, 800)) == pytest.approx(SMOLLM2.of(StepBatch(8, 0, 800)), rel=0.01)


def test_a_busy_machine_gives_no_curve() -> None:
    """More than half of the steps waited for a core."""
    with pytest.raises(InvalidField) as refusal:
        curve_of(told(disturbed=int(1000 * MOST_DISTURBED) + 1), Origin.BENCH, 5000.0)
    assert refusal.value.param == "disturbed"


def test_it_learns_early_and_then_seldom() -> None:
    """From the first steps that suffice, then each time that half as many were added."""
    clock = ManualClock()
    learning, grown = Learning(clock), int(FIRST_STEPS * GROWN)
    logs = [told(FIRST_STEPS - 1), told(FIRST_STEPS), told(grown - 1, factor=2.0), told(grown, factor=2.0)]
    assert [learning.look(one) for one in logs] == [False, True, False, True]
    found = learning.curve.model.fixed_s if learning.curve else 0.0
    assert found == pytest.approx(2 * SMOLLM2.fixed_s, rel=0.05)


def test_it_looks_now_and_then() -> None:
    """At once, then every ten seconds; never again at an engine without a log."""
    clock = ManualClock()
    learning, due = Learning(clock), list[bool]()
    for act in (lambda: None, lambda: learning.look(told()), lambda: clock.advance(EVERY_S), learning.stop):
        act()
        due.append(learning.is_due)
    clock.advance(1e9)
    assert [*due, learning.is_due] == [True, False, True, False, False]


def test_few_compositions_leave_the_curve_that_it_had() -> None:
    """A worker that sees one kind of request learns nothing new."""
    learning = Learning(ManualClock())
    assert learning.look(told(FIRST_STEPS))
    before = learning.curve
    assert not learning.look(told(10 * FIRST_STEPS, known=3, factor=5.0))
    assert learning.curve is before


def test_a_log_that_begins_anew_is_learned_from_early_again() -> None:
    """A measurement forgets what was before."""
    learning = Learning(ManualClock())
    assert learning.look(told(100_000))
    assert learning.look(told(FIRST_STEPS, factor=3.0))


def test_a_curve_that_explains_nothing_is_not_told() -> None:
    """Seconds without any rule: the held-out error is beyond the bound."""
    noise = told(FIRST_STEPS)
    for number, point in enumerate(noise["points"]):
        point[4] = (0.001, 1.0, 0.03)[number % 3]
    learning = Learning(ManualClock())
    assert not learning.look(noise)
    assert learning.curve is None
