"""How far a predicted time to the first token is off, by the step model and by a mean pace, in virtual time.

The engine's steps are the model's own, so this is the error that is left with a perfect fit: of the queue's order and
of answers' lengths. ``pytest -s`` prints the table.
"""

import random
import statistics
from dataclasses import replace
from typing import NamedTuple

import pytest

from loadtests import overload
from loadtests.simulator.engine import SMOLLM2_TWO_CORES, EngineModel, Sequence
from loadtests.simulator.worker import Arrival, Worker
from penstock.domain.ids import RequestId
from penstock.domain.tokens import PROMPT_WEIGHT
from penstock.worker.engines.stepping import Stepping
from penstock.worker.gate.queueing.admission import AdmissionQueue
from penstock.worker.gate.queueing.constants import OVERBOOKED_PART
from penstock.worker.gate.queueing.work import Work

SPAN_S, PATIENCE_S = 240.0, 30.0
MEAN_WORK = overload.MEAN_PROMPT + 2 * overload.MEAN_OUTPUT
LOADS = (0.3, 0.6, 0.9)


class Error(NamedTuple):
    median: float
    p90: float


class Predicting(Worker):
    """Notes for each request the prediction on its arrival, and the time that it took."""

    def __init__(self, *, by_steps: bool) -> None:
        size = replace(overload.SIZE, preempts=True)
        seqs = round(overload.SLOTS * (1 + OVERBOOKED_PART))
        self.queue = AdmissionQueue(size)
        super().__init__(self.queue, EngineModel(SMOLLM2_TWO_CORES, max_seqs=seqs, stepping=Stepping()))
        self.told, self.errors = dict[RequestId, tuple[float, float]](), list[float]()
        if by_steps:
            self.queue.forecast.learn(SMOLLM2_TWO_CORES)

    def arrive(self, arrival: Arrival) -> None:
        self.told[arrival.work.request] = self.now, self.predicted_s(arrival.work)
        super().arrive(arrival)

    def predicted_s(self, work: Work) -> float:
        forecast = self.queue.forecast
        reading_s = forecast.reading_s(work)
        if reading_s is None:
            reading_s = PROMPT_WEIGHT * work.prompt_tokens / forecast.pace.per_s
        return self.queue.expected_wait_s(work, self.now) + reading_s

    def _first(self, sequence: Sequence) -> None:
        came_at, predicted_s = self.told[sequence.work.request]
        self.errors.append(abs(predicted_s / (self.now - came_at) - 1))
        super()._first(sequence)


def error(per_s: float, *, by_steps: bool) -> Error:
    worker = Predicting(by_steps=by_steps)
    for one in overload.traffic(per_s, random.Random(0), patience_s=PATIENCE_S, span_s=SPAN_S):
        worker.expect(one)
    worker.run(SPAN_S)
    ordered = sorted(worker.errors)
    return Error(statistics.median(ordered), ordered[int(0.9 * len(ordered))])


@pytest.fixture(scope="module")
def errors() -> dict[float, tuple[Error, Error]]:
    """Return each load's errors: by a mean pace, as it was, and by the step model."""
    most_per_s = overload.capacity() / MEAN_WORK
    rates = {load: load * most_per_s for load in LOADS}
    found = {load: (error(rate, by_steps=False), error(rate, by_steps=True)) for load, rate in rates.items()}
    for load, (before, after) in found.items():
        print(f"| {load} | {before.median:.0%} | {before.p90:.0%} | {after.median:.0%} | {after.p90:.0%} |")  # noqa: T201
    return found


def test_without_a_queue_the_step_model_is_within_a_tenth(errors: dict[float, tuple[Error, Error]]) -> None:
    """A mean pace is off by half at any load: a step takes what is in it."""
    before, after = errors[0.3]
    assert after.median < 0.10
    assert before.median > 4 * after.median


def test_what_a_full_queue_does_is_no_better_known(errors: dict[float, tuple[Error, Error]]) -> None:
    """Near capacity unknown lengths and later requests that go first outweigh the steps: said, and not hidden."""
    before, after = errors[0.9]
    assert after.median > 0.3
    assert after.median == pytest.approx(before.median, abs=0.1)
