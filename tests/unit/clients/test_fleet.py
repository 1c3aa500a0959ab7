"""When waiting for workers is given up."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest

from penstock.clients.fleet import PATIENCE_S, FleetWatch, StartPatience, line_of
from penstock.clients.operator import Operator
from penstock.domain.command_error import CommandError
from tests.support.clock import ManualClock


def worker(name: str, state: str, detail: str = "", age_s: float = 0.0) -> dict[str, Any]:
    phases = [{"phase": "fetching", "seconds": 1.25}]
    return {"id": name, "state": state, "detail": detail, "phases": phases, "age_s": age_s}


Hearer = Callable[..., Awaitable[list[str]]]
Report = tuple[float, list[dict[str, Any]]]
"""Seconds since the report before, and the workers in it."""


class Over(Exception):
    """All reports were heard, and the watch still waits."""


class Script:
    """A controller with a deployment that is never whole."""

    def __init__(self, clock: ManualClock, reports: Sequence[Report]) -> None:
        self.clock, self.reports = clock, list(reports)

    def get(self, path: str) -> dict[str, Any]:
        if path != "/workers":
            return {"versions": [], "deployments": [{"version": "m@1", "replicas": 9}]}
        if not self.reports:
            raise Over
        seconds, workers = self.reports.pop(0)
        self.clock.advance(seconds)
        return {"workers": workers}


@pytest.fixture
def hear(tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> Hearer:
    """Return a watch of some reports: it returns the notes once it has heard them all."""
    monkeypatch.setattr("penstock.clients.fleet.POLL_S", 0.0)

    async def heard(*reports: Report, most_s: float = 1e9) -> list[str]:
        notes: list[str] = []
        waiting = StartPatience(lease_s=5.0, most_s=most_s, logs=tmp_path)
        watch = FleetWatch(lambda: cast("Operator", Script(clock, reports)), clock, waiting)
        with suppress(Over):
            await watch.until_ready(notes.append)
        return notes

    return heard


async def test_one_failed_worker_is_an_accident_and_three_are_a_cause(hear: Hearer) -> None:
    """The third worker that fails ends the start with its reason and its log."""
    first, second = worker("w1", "failed", "disk"), worker("w2", "failed", "disk")
    assert len(await hear((0.0, [first]), (0.0, [first, second]))) == 2
    with pytest.raises(CommandError, match=r"3 workers failed .* w3, because: a file was altered") as caught:
        await hear((0.0, [first]), (0.0, [first, second]), (0.0, [worker("w3", "failed", "a file was altered")]))
    assert caught.value.log is not None
    assert caught.value.log.name == "worker-w3.log"


async def test_patience_has_an_end(hear: Hearer) -> None:
    """A start that goes nowhere is given up and names the log of the worker that is not ready."""
    workers = [worker("w1", "ready"), worker("w2", "fetching")]
    with pytest.raises(CommandError, match=r"No progress for 240 s; waited for: w2  fetching") as caught:
        await hear((0.0, workers), (PATIENCE_S + 1, workers))
    assert caught.value.log is not None
    assert caught.value.log.name == "worker-w2.log"


@pytest.mark.parametrize("states", [("fetching", "verifying"), ("loading",), ("compiling",), ("warming",)])
async def test_a_slow_start_that_goes_on_is_waited_for(hear: Hearer, states: tuple[str, ...]) -> None:
    """A change is progress; so is a state that the worker's agent would end: it judges its engine by its work."""
    reports = [(0.9 * PATIENCE_S, [worker("w1", states[step % len(states)])]) for step in range(5)]
    assert len(await hear(*reports)) == 5


async def test_bytes_that_come_are_progress(hear: Hearer) -> None:
    """A download tells its megabytes."""
    reports = [(0.9 * PATIENCE_S, [worker("w1", "fetching", f"{step} MB")]) for step in range(5)]
    assert len(await hear(*reports)) == 5


async def test_a_start_that_goes_on_for_ever_is_given_up(hear: Hearer) -> None:
    """However much is new, the setting is the most."""
    with pytest.raises(CommandError, match=r"Not ready within 60 s \(PENSTOCK_START_WITHIN_S\)"):
        await hear((0.0, [worker("w1", "loading", "1")]), (61.0, [worker("w1", "loading", "2")]), most_s=60.0)


async def test_where_no_worker_reports_it_says_so(hear: Hearer) -> None:
    """An empty fleet is told as such, with the controller's log."""
    with pytest.raises(CommandError, match="no worker has reported yet") as caught:
        await hear((PATIENCE_S + 1, []))
    assert caught.value.log is not None
    assert caught.value.log.name == "controller.log"


async def test_reports_of_a_former_run_say_nothing(hear: Hearer) -> None:
    """A worker last reported before this start, or too long ago, is left out."""
    (note,) = await hear((2.0, [worker("now", "ready", age_s=0.5), worker("former", "ready", age_s=3.0)]))
    assert note.startswith("now")
    assert "former" not in note


def test_a_line_says_state_phases_and_reason() -> None:
    """One line per worker holds what a waiting person wants to know."""
    assert line_of(worker("w1", "loading", "3 of 9 MB")) == "w1  loading  fetching 1.2 s  3 of 9 MB"


async def test_a_version_larger_than_the_pool_is_not_waited_for(tmp_path: Path, clock: ManualClock) -> None:
    """The start ends with what is too large and what can be done; it said for ever that nobody had reported yet."""

    class Controller:
        def get(self, path: str) -> dict[str, Any]:
            if path == "/status":
                return {"pool": {"unfit": ["big@1 does not fit: needs 541 of 500 MB"]}}
            return {"workers": [], "versions": [], "deployments": [{"version": "big@1", "replicas": 1}]}

    waiting = StartPatience(lease_s=5.0, most_s=60.0, logs=tmp_path)
    watch = FleetWatch(lambda: cast("Operator", Controller()), clock, waiting)
    with pytest.raises(CommandError, match="big@1 does not fit: needs 541 of 500 MB") as caught:
        await watch.until_ready(lambda _: None)
    assert "PENSTOCK_POOL_BYTES" in caught.value.do


async def test_who_was_proven_and_sleeps_is_waited_for_no_more(tmp_path: Path, clock: ManualClock) -> None:
    """Where memory is short not everybody is awake at a time; one that starts is waited for all the same."""
    states = ["sleeping", "loading", "ready"]

    class Controller:
        def get(self, path: str) -> dict[str, Any]:
            workers = [worker("w1", "sleeping"), worker("w2", states[0])]
            versions = [{"id": one["id"], "base": "", "workers": [one]} for one in workers]
            deployed = [{"version": one["id"], "replicas": 1} for one in workers]
            return {"workers": workers, "versions": versions, "deployments": deployed}

    waiting = StartPatience(lease_s=5.0, most_s=60.0, logs=tmp_path)
    watch = FleetWatch(lambda: cast("Operator", Controller()), clock, waiting)
    assert await watch.until_ready(lambda _: None) == "w1 sleeps, w2 sleeps"
    states.pop(0)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await watch.until_ready(lambda _: None)
    states.pop(0)
    assert await watch.until_ready(lambda _: None) == "w1 sleeps, w2 1.2 s"
