"""A planned step of vLLM is read as a composition; the log is told as JSON."""

import json
from dataclasses import dataclass

import pytest

from penstock.domain.models.steps import StepBatch
from penstock.steps.log import BELIEVED, StepLog
from penstock.worker.engines.step_log import ask, batch_of, told, waited_s


@dataclass
class Request:
    """As vLLM has it after planning: the step's tokens are counted as computed."""

    num_prompt_tokens: int
    num_computed_tokens: int


@pytest.mark.parametrize(
    ("step", "request_", "batch"),
    [
        (1, Request(100, 151), StepBatch(1, 0, 150, 0.0)),
        (64, Request(100, 64), StepBatch(0, 64, 0, 2048.0)),
        (36, Request(100, 100), StepBatch(0, 36, 0, 36 * (64 + 18))),
        (1, Request(100, 100), StepBatch(0, 1, 0, 99.5)),
        (120, Request(100, 120), StepBatch(0, 120, 0, 7200.0)),
    ],
    ids=["decode", "first chunk", "later chunk", "last prompt token", "read again after preemption"],
)
def test_a_request_counts_by_what_the_step_does_for_it(step: int, request_: Request, batch: StepBatch) -> None:
    """A decode reads its context; prompt tokens attend to those before them."""
    assert batch_of({"a": step}, {"a": request_}) == batch


def test_a_step_is_the_sum_of_its_requests() -> None:
    """Two that decode and a prompt beside them."""
    requests = {"a": Request(10, 31), "b": Request(20, 51), "c": Request(40, 40)}
    assert batch_of({"a": 1, "b": 1, "c": 40}, requests) == StepBatch(2, 40, 80, 800.0)


def test_the_first_call_says_that_the_engine_is_warm() -> None:
    """Steps before it are not in the log; the answer is JSON, and a new measurement begins with none."""
    log = StepLog()
    assert told(log, "cpu x1", forget=False)["points"] == []
    assert log.is_on
    for at in range(BELIEVED):
        log.planned(StepBatch(2, 0, 100), float(at), 0.0)
        log.ended(at + 0.5, 0.0)
    found = json.loads(json.dumps(told(log, "cpu x1", forget=False)))
    assert found == {"hardware": "cpu x1", "steps": 3, "disturbed": 0, "points": [[2, 0, 100, 0.0, 0.5]]}
    assert told(log, "cpu x1", forget=True)["steps"] == 0


def test_waiting_for_a_core_is_counted_by_the_kernel() -> None:
    """Seconds that never sink."""
    first = waited_s()
    assert 0.0 <= first <= waited_s()


async def test_an_engine_without_a_log_says_so() -> None:
    """The torch engine's application has no engine core."""
    assert await ask(object(), forget=False) is None
