"""The GPUs that run nothing, each with its reason."""

from dataclasses import replace

import pytest

from penstock.domain.fleet.scaling import Idle, Override
from penstock.domain.fleet.worker import WorkerState
from tests.unit.scaling.test_stage import LONG, Version, asked, fleet, worker

PINNED = Override(workers=4, until=LONG, who="anna", reason="a launch")


@pytest.mark.parametrize(
    ("ready", "busy", "per_s", "least", "expected"),
    [
        (2, 2, 3.2, 1, {}),
        (2, 1, 3.2, 1, {Idle.HEADROOM: 1}),
        (4, 1, 3.2, 1, {Idle.SLOW_IN: 2, Idle.HEADROOM: 1}),
        (4, 1, 3.2, 4, {Idle.FLOOR: 2, Idle.HEADROOM: 1}),
        (4, 1, 3.2, 3, {Idle.SLOW_IN: 1, Idle.FLOOR: 1, Idle.HEADROOM: 1}),
        (4, 3, 3.2, 3, {Idle.SLOW_IN: 1}),
        (2, 0, 0.0, 2, {Idle.FLOOR: 2}),
        (1, 0, 0.0, 3, {Idle.FLOOR: 1}),
    ],
)
def test_idle_workers_beyond_the_need_have_another_reason_than_those_within(
    ready: int, busy: int, per_s: float, least: int, expected: dict[Idle, int]
) -> None:
    """Demand of 3.2 a second needs two workers: what is beyond it and the floor waits for the window."""
    workers = [*fleet(busy, 0.0, running=1), *(worker(f"idle{n}", 0.0) for n in range(ready - busy))]
    record = Version(least=least, deployed=ready).tick(0.0, asked(per_s), *workers)
    assert record.idle_gpus == expected


def test_a_sleeper_a_cordoned_worker_and_an_override_are_named() -> None:
    """And a worker of two GPUs counts as two."""
    version = Version(least=0, parked=1, deployed=1)
    version.scaled = replace(version.scaled, gpus=2)
    asleep = worker("s", 0.0, WorkerState.SLEEPING)
    assert version.tick(0.0, asked(1.0), *fleet(1, 0.0, running=1), asleep).idle_gpus == {Idle.WARM_POOL: 2}
    version = Version(least=4, most=4, deployed=4)
    version.scaled = replace(version.scaled, override=PINNED)
    assert version.tick(0.0, asked(1.0), *fleet(4, 0.0)).idle_gpus == {Idle.OVERRIDE: 3, Idle.HEADROOM: 1}
    version.scaled = replace(version.scaled, override=None, bounds=replace(version.scaled.bounds, least=1, most=2))
    version.tick(LONG, asked(1.0), *fleet(4, LONG))
    assert version.tick(LONG + 1, asked(1.0), *fleet(4, LONG + 1)).idle_gpus == {Idle.SLOW_IN: 3, Idle.HEADROOM: 1}
