"""A seed beside a prompt of several steps, on real vLLM: whoever asked for that killed the engine for all."""

import httpx
import pytest

from penstock.domain.serving.request import Api
from tests.support.workers.process import WorkerProcess

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

STEPS = "word " * 700
"""More than one step takes (512 tokens)."""


def drawn(worker: WorkerProcess, seed: int) -> str:
    """Return what is drawn by this seed."""
    body = {
        "model": worker.version,
        "prompt": STEPS,
        "max_tokens": 12,
        "temperature": 1.0,
        "seed": seed,
        "ignore_eos": True,
    }
    answer = worker.post(Api.COMPLETIONS, body)
    assert answer.status_code == httpx.codes.OK, answer.text
    return str(answer.json()["choices"][0]["text"])


def test_a_seeded_prompt_of_several_steps_is_answered(unhurried: WorkerProcess) -> None:
    """An answer depends on its seed, and not on how its prompt was cut: the second time it is read from the cache."""
    engine, first = unhurried.engine_pid, drawn(unhurried, 7)
    assert drawn(unhurried, 7) == first
    assert drawn(unhurried, 8) != first
    assert unhurried.engine_pid == engine
