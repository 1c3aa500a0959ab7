"""Work that no request waits for: nothing of it ends unseen."""

import asyncio
from collections import Counter

import pytest
import structlog

from penstock.gateway.dispatch.breaker import Breakers
from penstock.gateway.dispatch.records import FailureEvidence
from penstock.gateway.upkeep.background import Background
from penstock.telemetry import names
from tests.support.gateways.breakers import origin
from tests.support.gateways.dispatch import corridor, until


class Faulty:
    """Fails so many times, then runs until it is cancelled."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.begun = 0

    async def run(self) -> None:
        """Begin."""
        self.begun += 1
        if self.errors:
            raise self.errors.pop(0)
        await asyncio.Event().wait()


def background(counted: Counter[str]) -> Background:
    """Return one that pauses for no time."""
    return Background(lambda name: counted.update([name]), again_s=0.0)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("a secret"),
        ExceptionGroup("several", [RuntimeError("a secret"), ValueError()]),
        asyncio.CancelledError(),
    ],
)
async def test_what_runs_on_begins_again(error: BaseException) -> None:
    """An unexpected error ended a loop for good and nobody saw it: it is logged by name, counted, and begun anew."""
    faulty, counted = Faulty(error, KeyError()), Counter[str]()
    house = background(counted)
    with structlog.testing.capture_logs() as logged:
        house.keep("faulty", faulty.run)
        await until(lambda: faulty.begun == 3)
        await house.stop()
    assert counted == {"faulty": 2}
    assert [(line["event"], line["task"]) for line in logged] == [("background_failed", "faulty")] * 2
    assert logged[0]["error_type"] in ("RuntimeError", "CancelledError")
    assert logged[0]["detail"].startswith("test_background.py:") or isinstance(error, ExceptionGroup)
    assert "secret" not in str(logged)


async def test_what_has_returned_is_not_begun_again() -> None:
    """A task that is done is done."""
    begun = Counter[str]()

    async def once() -> None:
        begun["once"] += 1

    house = background(begun)
    house.keep("once", once)
    await until(lambda: all(task.done() for task in house.kept))
    assert begun == {"once": 1}


async def test_the_end_of_the_process_ends_all_of_it() -> None:
    """Neither what runs nor what is to begin again outlives it."""
    house = Background(again_s=60.0)
    runs, failed = Faulty(), Faulty(RuntimeError())
    for faulty in (runs, failed):
        house.keep("any", faulty.run)
    await until(lambda: (runs.begun, failed.begun) == (1, 1))
    await house.stop()
    assert all(task.done() for task in house.kept)


async def test_what_is_done_once_fails_under_its_name() -> None:
    """Work for one moment is not repeated, and its failure is seen."""
    counted = Counter[str]()
    house = background(counted)
    house.spawn(Faulty(RuntimeError()).run())
    await until(lambda: not house.tasks)
    assert counted == {"Faulty.run": 1}


class Once:
    """Breakers, one of whose methods raises the first time."""

    def __init__(self, breakers: Breakers, method: str) -> None:
        self._breakers, self._method = breakers, method

    def __getattr__(self, name: str) -> object:
        if name == self._method:
            self._method = ""
            raise RuntimeError("planted")
        return getattr(self._breakers, name)


@pytest.mark.parametrize("method", ["due", "next_due_at", "place_of", "judged"])
async def test_a_prober_that_failed_once_goes_on(method: str) -> None:
    """Whatever raises, before a question or after it: the worker is asked again, and nobody stays "being asked"."""
    async with corridor(2) as way:
        counted = Counter[str]()
        house, breakers = background(counted), way.breakers
        way.breakers = Once(breakers, method)  # type: ignore[assignment]
        prober = way.prober()
        breakers.failed(way.workers[0].id, FailureEvidence.BROKEN, origin(), way.clock.monotonic())
        house.keep("prober", prober.run)
        await until(lambda: way.counted(names.PROBES, outcome="passed") >= 1 and not _is_asked(breakers))
        await house.stop()
    assert counted == {"prober": 1}


def _is_asked(breakers: Breakers) -> bool:
    return any(breakers._plan.is_running(worker) or breakers._plan.is_wanted(worker) for worker in breakers.known())
