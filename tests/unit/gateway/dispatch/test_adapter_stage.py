"""The wait for an adapter at a worker: a stage of its own, and kept with the attempt."""

from dataclasses import replace
from typing import Any

import pytest

from penstock.domain.ids import WorkerId
from penstock.domain.outcome import Stage
from penstock.domain.serving.report import Adapted, Met, Report, Waited
from penstock.formats.report import HEADER, encode
from penstock.gateway.dispatch.attempt import Attempt
from tests.support.samples import adapter_versions
from tests.support.samples.calls import VERSION, call


class Deaf:
    """Stands for relay and load board."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  anything
        return lambda *_: None


@pytest.mark.parametrize(
    ("adapted", "stages"),
    [
        (Adapted(met=Met.LOADED, waited_s=1.5), {Stage.ADAPTER: 1.5, Stage.QUEUE: 0.5}),
        (Adapted(met=Met.QUEUED, waited_s=9.0), {Stage.ADAPTER: 2.0, Stage.QUEUE: 0.0}),
        (Adapted(met=Met.HIT), {Stage.QUEUE: 2.0}),
        (None, {Stage.QUEUE: 2.0}),
    ],
)
async def test_the_wait_for_an_adapter_is_a_stage(adapted: Adapted | None, stages: dict[Stage, float]) -> None:
    """It is a part of the wait at the gate, never more; it is no stage of a request without an adapter."""
    report = Report(waited=Waited(waited_s=2.0), adapted=adapted)
    headers = [(HEADER, encode(report))]
    asked, deaf = call(version=adapter_versions.entry()), Deaf()
    Attempt(deaf, WorkerId("w"), deaf, asked).on_head(200, headers)
    assert asked.timings.seconds == pytest.approx(stages)
    assert asked.attempts.report == report
    plain = call(version=replace(VERSION))
    Attempt(deaf, WorkerId("w"), deaf, plain).on_head(200, headers)
    assert plain.timings.seconds == {Stage.QUEUE: 2.0}
