"""Causes that one machine can bring about, on a real engine: `penstock diagnose` names each, from the pages alone.

Each recording is kept in `build/diagnose/`, the source of the unit tests' recordings.
"""

import json
import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from penstock.domain.outcome import Outcome
from penstock.telemetry import names
from tests.support import tree
from tests.support.patience import until
from tests.support.platforms.local import Platform
from tests.support.platforms.readings import Fleet
from tests.support.scenarios.pressure import Caller, flood, prompts, slow_readers, starved, streams

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

KEPT = tree.ROOT / "build/diagnose"
SETTLES_S = 4.0
"""How long a load runs before it is looked at."""
WINDOW_S, MOST_WINDOW_S = 12, 60
ENOUGH = 40
"""Answers in a window: fewer may all be of one tenant's turn."""
Callers = Mapping[str, Caller]
Load = AbstractContextManager[None]


def even(callers: Callers, count: int, tokens: int) -> list[Load]:
    """Return the same load of three tenants."""
    return [streams(callers[name], count, tokens=tokens) for name in ("one", "two", "three")]


def few(callers: Callers) -> list[Load]:
    """Return a load that any engine carries."""
    return [streams(callers["three"], 1, tokens=12, pause_s=0.1)]


LOADS: dict[str, Callable[[Callers], list[Load]]] = {
    "healthy": few,
    "slow-clients": lambda callers: [slow_readers(callers["one"], 4), *few(callers)],
    "prefill-interference": lambda callers: [
        streams(callers["one"], 4, tokens=40),
        prompts(callers["two"], tokens=400, pause_s=0.2),
    ],
    "engine-saturated": lambda callers: even(callers, 20, 48),
    "noisy-neighbour": lambda callers: [
        streams(callers["loud"], 44, tokens=48),
        streams(callers["quiet"], 3, tokens=16),
    ],
    "gateway-bound": lambda callers: [flood(callers["one"], 50), *few(callers)],
}


def diagnosed(platform: Platform, name: str, seconds: int = WINDOW_S) -> dict[str, Any]:
    """Run the command beside the platform; keep the recording."""
    KEPT.mkdir(parents=True, exist_ok=True)
    file: Path = KEPT / f"{name}.json"
    done = platform.run(
        "diagnose", "--window", f"{seconds}s", "--json", "--record", str(file), check=False, within_s=90
    )
    assert done.returncode in {0, 3, 4}, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    (KEPT / f"{name}.txt").write_text(platform.run("diagnose", "--replay", str(file), check=False).stdout)
    return told


def settles() -> int:
    """Let the load run for a while; return the seconds of a window of a quiet machine."""
    time.sleep(SETTLES_S)
    return WINDOW_S


def paced_s(platform: Platform) -> int:
    """Return the seconds in which the engine, as quick as it is now, gives answers enough."""
    fleet = Fleet(platform=platform)
    settles()
    before = fleet.counted(names.REQUESTS, outcome=Outcome.OK)
    took_s = until(
        "answers end", lambda: fleet.counted(names.REQUESTS, outcome=Outcome.OK) >= before + ENOUGH / 4, within_s=40
    )
    return min(MOST_WINDOW_S, max(WINDOW_S, math.ceil(4 * took_s)))


def named(told: Mapping[str, Any]) -> str:
    """Return the bottleneck, else what was found though promises are kept, else the verdict."""
    found = [one["case"] for one in told["findings"]]
    return str(told["bottleneck"] or next(iter(found), told["verdict"]))


def settled(platform: Platform) -> None:
    """Wait until nothing of the load before is left."""

    def is_quiet() -> bool:
        found = platform.run("status").stdout
        return "0+0" in found

    until("the engine is at rest", is_quiet, within_s=60, every_s=0.5)


ANYWHERE = ("engine-saturated", "noisy-neighbour")
"""What is named on a busy machine as well; each run has the first. The others are about seconds: drills have cores."""


def marked(name: str) -> object:
    """Return a load with whether every run has it, or drills alone."""
    return pytest.param(name, marks=pytest.mark.observe if name == ANYWHERE[0] else pytest.mark.drill)


@pytest.mark.parametrize("name", [marked(name) for name in LOADS])
def test_a_load_is_named(platform: Platform, callers: Callers, table: list[tuple[str, str]], name: str) -> None:
    """Each load is diagnosed as the cause that it is, and no other is found to be the bottleneck."""
    settled(platform)
    with ExitStack() as running:
        if name == "gateway-bound":  # a flood alone leaves it room: requests start in turns by tenant
            running.enter_context(starved(platform.pids("gateway")[0]))
        for load in LOADS[name](callers):
            running.enter_context(load)
        told = diagnosed(platform, name, paced_s(platform) if name in ANYWHERE else settles())
    table.append((name, named(told)))
    assert named(told) == name, json.dumps(told, indent=1)


@pytest.mark.drill
def test_a_cold_start_is_named(platform: Platform, callers: Callers, table: list[tuple[str, str]]) -> None:
    """Requests for a version with its only worker still starting show a cold start."""
    settled(platform)
    _scale(platform, 0)
    with ExitStack() as running:
        for load in few(callers):
            running.enter_context(load)
        told = _while(lambda: diagnosed(platform, "cold-start", 30), lambda: _scale(platform, 1))
    table.append(("cold-start", named(told)))
    assert named(told) == "cold-start", json.dumps(told, indent=1)


@pytest.mark.drill
def test_an_unhealthy_version_is_named(platform: Platform, callers: Callers, table: list[tuple[str, str]]) -> None:
    """A version with an engine that dies again and again is told from one that is merely starting."""
    settled(platform)
    with ExitStack() as running:
        for load in few(callers):
            running.enter_context(load)
        told = _while(lambda: diagnosed(platform, "unhealthy-version", 40), lambda: _kill_twice(platform))
    table.append(("unhealthy-version", named(told)))
    assert named(told) == "unhealthy-version", json.dumps(told, indent=1)


def _while(look: Callable[[], dict[str, Any]], act: Callable[[], None]) -> dict[str, Any]:
    """Look, and act a moment after looking has begun."""
    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(look)
        time.sleep(SETTLES_S)
        act()
        return looking.result()


def _scale(platform: Platform, workers: int) -> None:
    with httpx.Client(
        base_url=f"{platform.controller_url}/admin/v1",
        headers={"authorization": f"Bearer {platform.admin_key}"},
        trust_env=False,
    ) as http:
        (version,) = (one["version"] for one in http.get("/deployments").json()["deployments"])
        http.put(f"/deployments/{version}", json={"replicas": workers}).raise_for_status()
    if not workers:
        until("no worker is left", lambda: not platform.pids("worker"), within_s=60, every_s=0.2)


def _kill_twice(platform: Platform) -> None:
    (first,) = platform.kill("engine")
    until("another engine runs", lambda: platform.pids("engine") not in ([], [first]), within_s=60)
    time.sleep(SETTLES_S)
    platform.kill("engine")
