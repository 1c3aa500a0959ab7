"""The wait for an adapter at a worker: a stage of its own, and kept with the attempt."""

from dataclasses import replace
from typing import Any

import pytest

from penstock.domain.ids import WorkerId
from penstock.domain.outcome import Stage
from penstock.gateway.dispatch.attempt import Attempt
from penstock.gateway.dispatch.wire import adapter_s_of
from tests.support.samples import adapter_versions
from tests.support.samples.calls import VERSION, call


class Deaf:
    """Stands for relay and load board."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  anything
        return lambda *_: None


@pytest.mark.parametrize(
    ("told", "stages"),
    [
        (b"loaded,1500.0", {Stage.ADAPTER: 1.5, Stage.QUEUE: 0.5}),
        (b"queued,9000.0", {Stage.ADAPTER: 2.0, Stage.QUEUE: 0.0}),
        (b"hit,0.000", {Stage.QUEUE: 2.0}),
        (b"", {Stage.QUEUE: 2.0}),
        (b"nonsense", {Stage.QUEUE: 2.0}),
    ],
)
async def test_the_wait_for_an_adapter_is_a_stage(told: bytes, stages: dict[Stage, float]) -> None:
    """It is a part of the wait at the gate, never more; of a request without an adapter nothing of it is heard."""
    headers = [(b"x-penstock-waited-ms", b"2000.0"), (b"x-penstock-adapter", told)]
    asked, deaf = call(version=adapter_versions.entry()), Deaf()
    Attempt(deaf, WorkerId("w"), deaf, asked).on_head(200, headers)
    assert asked.timings.seconds == pytest.approx(stages)
    assert asked.attempts.adapter == told
    plain = call(version=replace(VERSION))
    Attempt(deaf, WorkerId("w"), deaf, plain).on_head(200, headers)
    assert (plain.timings.seconds, plain.attempts.adapter) == ({Stage.QUEUE: 2.0}, b"")


def test_a_long_word_is_cut() -> None:
    """What a gate tells is bounded before it is read."""
    assert adapter_s_of(b"loaded,1000.0," + b"x" * 5000, 9.0) == 1.0
