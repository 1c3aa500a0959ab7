"""The GPUs that run nothing, each with its reason."""

from dataclasses import replace
from itertools import product

import pytest

from penstock.domain.fleet.scaling import Act, Idle, Override
from penstock.domain.fleet.worker import WorkerState
from penstock.scaling.stage import ASKED, MISSING, NO_CURVE
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


@pytest.mark.parametrize(
    ("ready", "least", "most", "pinned", "missing"),
    list(product((0, 1, 3), (0, 2), (2, 4), (False, True), ((), ("g",)))),
)
def test_without_a_curve_a_record_invents_nothing(
    ready: int, least: int, most: int, pinned: bool, missing: tuple[str, ...]
) -> None:
    """No wish, no cut of one, no headroom; reasons are bounds, the lack of a curve, or missing demand."""
    version = Version(least=most if pinned else least, most=most, deployed=ready)
    override = replace(PINNED, workers=most) if pinned else None
    version.scaled = replace(version.scaled, curve=None, override=override)
    floor = version.scaled.bounds.least
    for per_s in (0.0, 5.0):
        record = version.tick(0.0, asked(per_s, missing=missing), *fleet(ready, 0.0))
        if record.reason == ASKED:
            assert (ready, per_s > 0, record.wish) == (0, True, 1.0)
            continue
        assert (record.wish, record.cut) == (None, "")
        bounds = {str(override)} if override else {f"floor {floor}", f"most {most}"}
        assert record.reason in ({NO_CURVE, MISSING} if record.act is Act.HOLD else bounds) | bounds | {
            "1 more than the number"
        }
        assert set(record.idle_gpus) <= {Idle.OVERRIDE if override else Idle.FLOOR, Idle.UNMEASURED, Idle.SLOW_IN}
        assert record.idle_gpus.get(Idle.FLOOR, 0) <= floor


def test_a_worker_kept_for_its_idle_time_is_no_floors() -> None:
    """The scale file says 0: the record names the idle time, not a floor that nobody set."""
    record = Version(least=0, deployed=1, idle_s=600.0).tick(0.0, asked(0.0), *fleet(1, 0.0))
    assert (record.wish, record.cut, record.reason) == (0.0, "used within 600 s", "used within 600 s")
    assert record.idle_gpus == {Idle.SLOW_IN: 1}


def test_a_floor_is_the_reason_of_its_workers() -> None:
    """No demand asked for them."""
    assert Version(least=2).tick(0.0, asked(0.0), *fleet(1, 0.0)).reason == "floor 2"
    silent = Version(least=2, deployed=2).tick(0.0, asked(0.0, missing=("g",)), *fleet(2, 0.0))
    assert (silent.wish, silent.cut, silent.reason, silent.idle_gpus) == (None, "", MISSING, {Idle.FLOOR: 2})


def test_a_wish_of_as_many_workers_is_not_known_while_numbers_are_missing() -> None:
    """Five workers that the known demand asks for: the record has no wish, since a gateway is missing."""
    version = Version()
    version.tick(0.0, asked(8.0), *fleet(5, 0.0))
    record = version.tick(1.0, asked(8.0, missing=("g",)), *fleet(5, 1.0))
    assert (record.reason, record.wish) == (MISSING, None)
