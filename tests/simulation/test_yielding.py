"""Batch work beside interactive tenants in virtual time: the learned slots against the best number by hand."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from loadtests import overload
from loadtests.simulator.engine import EngineModel, SimulatedStep
from loadtests.simulator.worker import Worker
from loadtests.yielding_in_time import BATCH, BY_HAND, PROMISE, FixedSlots, Scene, ours, seen_by_readers
from penstock.domain.ids import TenantId
from penstock.domain.tenancy.standing import Standing
from penstock.worker.gate.queueing.constants import STANDING_PART
from tests.support.variants import drilled

CASES = [(1, math.inf), (8, 20.0), *drilled([(8, math.inf)])]


class ColdEngine(EngineModel):
    """An engine that compiles for five seconds in each of its first ten steps."""

    steps = 0

    def step(self) -> SimulatedStep:
        made = super().step()
        self.steps += 1
        return replace(made, seconds=5.0) if self.steps <= 10 else made


@pytest.mark.parametrize(("readers", "phase_s"), CASES)
def test_the_learned_slots_keep_the_promise_and_nearly_the_best_throughput(
    readers: int, phase_s: float, record_property: Callable[[str, object], None]
) -> None:
    """At least nine tenths of what the best number by hand gives batch work, of those that keep the promise."""
    scene = partial(Scene, readers=readers, phase_s=phase_s)
    worker = scene().play()
    seen, service = seen_by_readers(worker), worker.records[BATCH].service
    by_hand = [scene(yielding=FixedSlots(number)).play() for number in BY_HAND]
    best = max(one.records[BATCH].service for one in by_hand if seen_by_readers(one).is_kept)
    record_property("yielding", {"itl_p95": seen.each(0.95), "of_best": service / best})
    assert seen.is_kept
    assert service >= 0.9 * best


@pytest.mark.parametrize(("readers", "q"), [(8, 0.99), *drilled([(1, 0.95)])])
def test_strict_batch_work_is_hardly_noticed(readers: int, q: float) -> None:
    """First tokens are at most a quarter later than without batch work, which has the calm; of one reader's two dozen
    questions in a burst the first waits for a step that runs, so its p95 is judged.
    """
    scene = partial(Scene, readers=readers, phase_s=20.0)
    alone, worker = seen_by_readers(scene(open=0).play()), scene(is_strict=True).play()
    assert seen_by_readers(worker).first(q) <= 1.25 * alone.first(q)
    assert worker.records[BATCH].service > 0.25 * scene().play().records[BATCH].service


def test_without_the_rule_the_promise_is_broken() -> None:
    """The parts of standings alone let batch work slow every fifth token."""
    assert not seen_by_readers(Scene(readers=1, yielding=FixedSlots(overload.SLOTS)).play()).is_kept


def test_the_number_settles() -> None:
    """Once it is found it stays near its mean, neither swinging nor drifting."""
    scene = Scene(readers=8)
    scene.play()
    settled = scene.learned[60:]
    mean = sum(settled) / len(settled)
    assert all(mean / 2 < one < 2 * mean for one in settled)
    assert (sum((one - mean) ** 2 for one in settled) / len(settled)) ** 0.5 < mean / 4


def test_batch_work_fills_the_engine_soon_after_the_last_question() -> None:
    """And no sooner than readers usually return."""
    scene = Scene(readers=8, until_s=100.0)
    scene.play()
    assert max(scene.held[60:100]) < STANDING_PART[Standing.BATCH] * overload.SLOTS - 2
    assert min(scene.held[110:]) >= STANDING_PART[Standing.BATCH] * overload.SLOTS - 2


def test_a_cold_engines_compile_costs_batch_work_nothing() -> None:
    """Ten steps of five seconds each, beside readers that wait for them."""
    scene = Scene(readers=8, made=partial(ours, ColdEngine))
    worker = scene.play()
    assert max(worker.records[TenantId("reader-0")].ttft_s) > 5
    assert scene.learned[45] == math.inf
    assert scene.yielding.first.slots == math.inf


BATCHES = {1440.0: 100, 120.0: 80, 30.0: 40}
"""Requests by window: 24 h, 2 h and 30 min, a minute to the second."""


def test_batches_end_within_their_windows_nearest_first() -> None:
    """Three of one tenant, submitted farthest window first, beside a reader."""
    scene, ended = Scene(readers=1), {window_s: list[float]() for window_s in BATCHES}
    worker = Worker(*ours())
    worker.promise = PROMISE
    worker.expect(scene.question("reader", 0.0))
    for number, (window_s, many) in enumerate(BATCHES.items()):
        for _ in range(many):
            line = scene.line(0.001 * number)
            work = replace(line.work, deadline_at=window_s)
            worker.expect(replace(line, work=work, then=ended[window_s].append))
    worker.run(300.0)
    assert {window_s: len(ends) for window_s, ends in ended.items()} == BATCHES
    assert worker.records[BATCH].in_time == sum(BATCHES.values())
    assert all(max(ends) < window_s for window_s, ends in ended.items())
    medians = [sorted(ended[window_s])[len(ended[window_s]) // 2] for window_s in BATCHES]
    assert medians == sorted(medians, reverse=True)
