"""A seed beside a prompt of several steps, on real vLLM: such a request killed the engine for all."""

import httpx
import pytest

from penstock.domain.serving.request import Api
from tests.support.engines.likeness import DRAWS, agreeing
from tests.support.workers.process import WorkerProcess

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

STEPS = "word " * 700 + "Once upon a time there was"
"""More than one step takes (512 tokens)."""


def drawn(worker: WorkerProcess, seed: int) -> list[str]:
    body = {
        "model": worker.version,
        "prompt": STEPS,
        "seed": seed,
        "ignore_eos": True,
        **DRAWS,
    }
    answer = worker.post(Api.COMPLETIONS, body)
    assert answer.status_code == httpx.codes.OK, answer.text
    return [choice["text"] for choice in answer.json()["choices"]]


def test_a_seeded_prompt_of_several_steps_is_answered(unhurried: WorkerProcess) -> None:
    """An answer depends on its seed, and not on how its prompt was cut: the second time it is read from the cache."""
    engine, first = unhurried.engine_pid, drawn(unhurried, 7)
    assert agreeing(drawn(unhurried, 7), first) > 0.5
    assert agreeing(drawn(unhurried, 70), first) < 0.5
    assert unhurried.engine_pid == engine
