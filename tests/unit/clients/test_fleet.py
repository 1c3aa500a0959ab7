"""When waiting for workers is given up."""

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from penstock.apps.settings import Settings
from penstock.clients.fleet import PATIENCE_S, FleetWatch, Waiting, line_of
from penstock.clients.operator import Operator
from penstock.domain.command_error import CommandError
from penstock.local import connections
from tests.support.clock import ManualClock


def worker(name: str, state: str, detail: str = "", age_s: float = 0.0) -> dict[str, Any]:
    phases = [{"phase": "fetching", "seconds": 1.25}]
    return {"id": name, "state": state, "detail": detail, "phases": phases, "age_s": age_s}


@pytest.fixture
def watch(tmp_path: Path, clock: ManualClock) -> FleetWatch:
    """Return a watch that began at second 0."""
    return connections.fleet(Settings(home=tmp_path), clock)


def test_one_failed_worker_is_an_accident_and_three_are_a_cause(watch: FleetWatch) -> None:
    """The third worker that fails ends the start with its reason and its log."""
    watch._give_up([worker("w1", "failed", "disk")])
    watch._give_up([worker("w1", "failed", "disk"), worker("w2", "failed", "disk")])
    with pytest.raises(CommandError, match=r"3 workers failed .* w3, because: a file was altered") as caught:
        watch._give_up([worker("w3", "failed", "a file was altered")])
    assert caught.value.log is not None
    assert caught.value.log.name == "worker-w3.log"


def test_patience_has_an_end(watch: FleetWatch, clock: ManualClock) -> None:
    """A start that goes nowhere is given up and names the log of the worker that is not ready."""
    watch._give_up([worker("w1", "ready"), worker("w2", "loading")])
    clock.advance(PATIENCE_S + 1)
    with pytest.raises(CommandError, match=r"No progress for 240 s; waited for: w2  loading") as caught:
        watch._give_up([worker("w1", "ready"), worker("w2", "loading")])
    assert caught.value.log is not None
    assert caught.value.log.name == "worker-w2.log"


@pytest.mark.parametrize("new", ["state", "detail", "log"])
def test_a_slow_start_that_goes_on_is_waited_for(
    watch: FleetWatch, clock: ManualClock, tmp_path: Path, new: str
) -> None:
    """On a slow machine a start was given up after 240 s in the midst of loading."""
    (tmp_path / "logs").mkdir()
    log = tmp_path / "logs/engine-w1.log"
    for step in range(5):
        one = worker("w1", "loading", f"{step} of 9 MB" if new == "detail" else "")
        one["state"] = ("loading", "warming")[step % 2] if new == "state" else "loading"
        log.write_text("x" * step if new == "log" else "")
        watch._give_up([one])
        clock.advance(0.9 * PATIENCE_S)


def test_a_start_that_goes_on_for_ever_is_given_up(tmp_path: Path, clock: ManualClock) -> None:
    """However much is new, the setting is the most."""
    watch = connections.fleet(Settings(home=tmp_path, start_within_s=60.0), clock)
    watch._give_up([worker("w1", "loading", "1")])
    clock.advance(61.0)
    with pytest.raises(CommandError, match=r"Not ready within 60 s \(PENSTOCK_START_WITHIN_S\)"):
        watch._give_up([worker("w1", "loading", "2")])


def test_where_no_worker_reports_it_says_so(watch: FleetWatch, clock: ManualClock) -> None:
    """Nobody there is told as such, with the controller's log."""
    clock.advance(PATIENCE_S + 1)
    with pytest.raises(CommandError, match="no worker has reported yet") as caught:
        watch._give_up([])
    assert caught.value.log is not None
    assert caught.value.log.name == "controller.log"


def test_reports_of_a_former_run_say_nothing(watch: FleetWatch, clock: ManualClock) -> None:
    """A worker last reported before this start, or too long ago, is left out."""
    clock.advance(2.0)
    heard = [worker("now", "ready", age_s=0.5), worker("former", "ready", age_s=3.0)]
    assert [one["id"] for one in watch._of_this_run(heard)] == ["now"]


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

    waiting = Waiting(lease_s=5.0, most_s=60.0, logs=tmp_path)
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

    waiting = Waiting(lease_s=5.0, most_s=60.0, logs=tmp_path)
    watch = FleetWatch(lambda: cast("Operator", Controller()), clock, waiting)
    assert await watch.until_ready(lambda _: None) == "w1 sleeps, w2 sleeps"
    states.pop(0)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await watch.until_ready(lambda _: None)
    states.pop(0)
    assert await watch.until_ready(lambda _: None) == "w1 sleeps, w2 1.2 s"
