"""The log of an engine's steps: medians by composition; cold and disturbed steps teach nothing."""

import pytest

from penstock.domain.models.steps import StepBatch
from penstock.steps.log import BELIEVED, KEPT, MOST_CELLS, StepLog

ONE = StepBatch(8, 0, 400)


def a_log() -> StepLog:
    return StepLog(is_on=True)


def medians(log: StepLog) -> dict[StepBatch, float]:
    return {point.batch: point.seconds for point in log.points()}


def stepped(log: StepLog, *seconds: float, batch: StepBatch = ONE, begin: float = 100.0, waits: float = 0.0) -> float:
    """Let steps end one after the other; each waits ``waits`` seconds for a core."""
    now, waited = begin, 50.0
    for took in seconds:
        log.planned(batch, now, waited)
        now, waited = now + took, waited + waits
        log.ended(now, waited)
    return now


def test_the_median_of_a_composition_is_its_point() -> None:
    """From the third step on, and of the last nine."""
    log = a_log()
    now = stepped(log, 0.010, 0.900)
    assert log.points() == []
    stepped(log, 0.011, begin=now)
    assert medians(log) == {ONE: pytest.approx(0.011)}
    stepped(log, *[0.05] * KEPT, begin=now + 1)
    assert medians(log) == {ONE: pytest.approx(0.05)}


def test_a_cold_engine_teaches_nothing() -> None:
    """Steps before it is ready are not even counted; what was seen is forgotten on demand."""
    log = StepLog()
    stepped(log, *[9.0] * KEPT)
    assert (log.points(), log.steps) == ([], 0)
    log.is_on = True
    stepped(log, *[0.02] * BELIEVED, begin=500.0)
    assert medians(log) == {ONE: pytest.approx(0.02)}
    log.forget()
    assert (log.points(), log.steps, log.disturbed) == ([], 0, 0)


def test_a_wait_for_a_core_is_no_part_of_a_step() -> None:
    """Up to a third it is taken off; beyond that the step is left out, and counted as disturbed."""
    log = a_log()
    now = stepped(log, *[0.100] * 4, waits=0.031)
    assert (log.steps, log.disturbed, log.points()) == (4, 4, [])
    stepped(log, *[0.100] * 4, begin=now, waits=0.029)
    assert (log.steps, log.disturbed) == (8, 4)
    assert medians(log) == {ONE: pytest.approx(0.071)}


def test_a_step_planned_early_begins_with_the_end_of_the_one_before() -> None:
    """An asynchronous engine plans while it steps: no second counts twice."""
    log, now = a_log(), 10.0
    log.planned(ONE, now, 0.0)
    for _ in range(4):
        log.planned(ONE, now + 0.001, 0.0)
        now += 0.020
        log.ended(now, 0.0)
    assert medians(log) == {ONE: pytest.approx(0.020)}


def test_idle_time_is_in_no_step() -> None:
    """A step after a pause takes its own time alone."""
    log = a_log()
    for begin in (10.0, 20.0, 30.0):
        stepped(log, 0.02, begin=begin)
    assert medians(log) == {ONE: pytest.approx(0.02)}


def test_compositions_apart_are_points_apart() -> None:
    """A batch of 8 and one of 16, contexts, prompts: each counts once."""
    log = a_log()
    now = 100.0
    for batch in (
        ONE,
        StepBatch(16, 0, 400),
        StepBatch(8, 0, 4000),
        StepBatch(8, 64, 400, 2048.0),
        StepBatch(0, 64, 0, 2048.0),
    ):
        now = stepped(log, *[0.02] * BELIEVED, batch=batch, begin=now)
    assert len(log.points()) == 5


def test_memory_is_bounded_and_the_longest_unseen_gives_way() -> None:
    """Whatever is asked, the number of compositions has a bound."""
    log, now = a_log(), 100.0
    for number in range(2 * MOST_CELLS):
        other = StepBatch(2 ** (number % 20), 0, 2 ** (number // 20))
        now = stepped(log, *[0.02] * BELIEVED, batch=other, begin=now)
        now = stepped(log, 0.02, batch=ONE, begin=now)
    assert len(log.points()) == MOST_CELLS
    assert ONE in {one.batch for one in log.points()}


def test_an_empty_step_and_an_end_without_a_plan_are_ignored() -> None:
    """An engine also steps to free what has ended."""
    log = a_log()
    log.ended(1.0, 0.0)
    stepped(log, *[0.01] * BELIEVED, batch=StepBatch())
    assert (log.points(), log.steps) == ([], 0)
