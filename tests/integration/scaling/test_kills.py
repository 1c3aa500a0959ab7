"""Processes that die while a number changes: nothing is started twice, and no worker that serves ends."""

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import psutil
import pytest

from penstock.control.api.scale import OVERRIDE_LEAST_S
from tests.integration.conftest import HomeMaker
from tests.support.patience import until
from tests.support.platforms.scaled import Asking, ScaledSite, scaled_site

pytestmark = [pytest.mark.integration, pytest.mark.drill, pytest.mark.timeout(1200)]

AWAY_S = 60.0
"""Seconds for which Postgres is away."""
LONG = 400
"""Tokens of a stream that outlasts a decision."""
PAIR = ["ready", "ready"]


@pytest.fixture(scope="module")
def site(new_home: HomeMaker, shared_settings: dict[str, str]) -> Iterator[ScaledSite]:
    with scaled_site(new_home("kills"), shared_settings, "least: 1, most: 2") as running:
        yield running


def number(site: ScaledSite, workers: int) -> None:
    """Let a person set the number, and wait until a tick has taken it."""
    site.deploy(workers)
    asked = time.time()
    until("a tick has it", lambda: site.admin("/scale")["versions"][0]["record"]["at"] > asked, within_s=30)


def grown(site: ScaledSite) -> int:
    """Let a person ask for two; return the workers started before."""
    started = site.started
    number(site, 2)
    assert site.started == started + 1
    return started


def paired(site: ScaledSite) -> None:
    number(site, 2)
    until("two serve", lambda: site.states == PAIR, within_s=180)


def no_stream_broke(asking: Asking) -> None:
    """A refusal beyond what a busy machine serves is none; a connection that breaks, or an answer cut short, is one."""
    assert [one for one in asking.said if not (one.is_whole or one.status in {429, 503})] == []
    assert any(one.is_whole for one in asking.said)


def shrunk(site: ScaledSite) -> None:
    number(site, 2)
    number(site, 1)
    until("one is left", lambda: site.states == ["ready"], within_s=60)
    until("and one process", lambda: len(site.platform.pids("worker")) == 1, within_s=60)


def kill_controller(site: ScaledSite) -> None:
    """``kill -9``, then wait until its successor leads."""
    (before,) = site.platform.kill("controller")
    until("a successor runs", lambda: site.platform.pids("controller") not in ([before], []), within_s=30)
    until("it leads", lambda: leads(site), within_s=60)


def leads(site: ScaledSite) -> bool:
    try:
        return bool(site.admin("/status")["leader"])
    except Exception:  # noqa: BLE001  it is not there yet
        return False


def test_the_controller_dies_while_a_worker_starts(site: ScaledSite) -> None:
    """Its successor counts the worker that starts, and no third one; streams go on."""
    with Asking(site, 1.0) as asking:
        before = grown(site)
        kill_controller(site)
        until("two serve", lambda: site.states == PAIR, within_s=120)
    assert site.started == before + 1
    no_stream_broke(asking)


def test_the_controller_dies_while_a_worker_is_cordoned(site: ScaledSite) -> None:
    """The long streams of both end whole, and what serves goes on: the successor takes the cordoned worker back."""
    paired(site)
    workers = site.platform.pids("worker")
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(site.ask, LONG) for _ in range(8)]
        until("both have streams", lambda: site.held[1] == 8, within_s=10)
        site.deploy(1)
        until("one is cordoned", lambda: site.states == ["draining", "ready"], within_s=10)
        kill_controller(site)
        said = [one.result() for one in asked]
    assert all(one.is_whole for one in said), said
    until("both serve", lambda: site.states == PAIR, within_s=30)
    assert site.platform.pids("worker") == workers


def test_postgres_is_away_for_a_minute(site: ScaledSite) -> None:
    """Stopped whole, and so is each successor that the supervisor starts: no worker starts and none ends."""
    paired(site)
    workers, started = site.platform.pids("worker"), site.started
    end = time.monotonic() + AWAY_S
    while time.monotonic() < end:
        for pid in site.platform.pids("postgres"):
            with suppress(psutil.NoSuchProcess):
                database = psutil.Process(pid)
                for process in (database, *database.children(recursive=True)):
                    process.suspend()
        time.sleep(0.5)
    for pid in site.platform.pids("postgres"):
        with suppress(psutil.NoSuchProcess):
            database = psutil.Process(pid)
            for process in (database, *database.children(recursive=True)):
                process.resume()
    until("a controller leads", lambda: leads(site), within_s=60)
    until("both serve", lambda: site.states == PAIR, within_s=60)
    assert (site.platform.pids("worker"), site.started) == (workers, started)
    assert site.ask().is_whole


def test_a_gateway_dies_while_a_worker_goes(site: ScaledSite) -> None:
    """Its successor reports under its name: the idle worker ends, and nothing is started for the silence."""
    paired(site)
    started = site.started
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(site.ask, LONG) for _ in range(4)]
        until("streams run", lambda: site.held[1] == 4, within_s=10)
        site.deploy(1)
        until("one is cordoned", lambda: site.states == ["draining", "ready"], within_s=10)
        site.platform.kill("gateway")
        assert {one.result().status for one in asked} <= {0, 200}
    until("one is left", lambda: site.states == ["ready"], within_s=120)
    assert site.started == started
    until("it is asked again", lambda: site.ask().is_whole, within_s=60)


def reasons(site: ScaledSite) -> str:
    return "\n".join(one["reason"] for one in site.records)


def test_an_override_ends_by_itself(site: ScaledSite) -> None:
    """Two for a minute, asked by nobody: then one again, with nothing done by hand, audited and in the history."""
    shrunk(site)
    started = site.started
    site.platform.run("scale", "set", site.version, "2", "--for", "1m", "--reason", "a launch")
    set_at = time.time()
    until("a second one starts", lambda: site.started == started + 1, within_s=20)
    until("the override has ended", lambda: "has ended" in reasons(site), within_s=90)
    until("one is left", lambda: site.states == ["ready"], within_s=120)
    until("and one process", lambda: len(site.platform.pids("worker")) == 1, within_s=30)
    assert time.time() - set_at >= OVERRIDE_LEAST_S
    told = reasons(site)
    audited = site.platform.run("audit", "--limit", "9").stdout
    print(f"one left {time.time() - set_at:.1f} s after it was set\n{told}\n{audited}")  # noqa: T201
    assert "override of 2 until" in told
    assert "has ended" in told
    assert audited.index("scale.override_end") < audited.index("scale.override ")


def test_the_worker_that_starts_dies(site: ScaledSite) -> None:
    """One more is started in its stead, and the one that serves goes on with its streams."""
    shrunk(site)
    until("one process is left", lambda: len(site.platform.pids("worker")) == 1, within_s=60)
    (serving,) = site.platform.pids("worker")
    with Asking(site, 1.0) as asking:
        before = grown(site)
        until("it has a process", lambda: len(site.platform.pids("worker")) == 2, within_s=15)
        (young,) = set(site.platform.pids("worker")) - {serving}
        os.kill(young, signal.SIGKILL)
        until("two serve", lambda: site.states == PAIR, within_s=180)
    assert site.started == before + 2
    assert serving in site.platform.pids("worker")
    no_stream_broke(asking)
