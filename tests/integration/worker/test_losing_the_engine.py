"""Engines that die, freeze or can't start, on real processes."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import psutil
import pytest

from penstock.domain.models.model import EngineSettings, GoldenPrompt
from penstock.domain.tenancy.tenant import PLATFORM
from penstock.settings import Settings
from tests.support.failures.stopped import stopped
from tests.support.workers.process import Publisher, TicketMaker, WorkerMaker, WorkerProcess, group

pytestmark = pytest.mark.integration


def recovers(worker: WorkerProcess, reason: str, *, hurt: int, number: signal.Signals) -> None:
    """Hurt a process of the engine and check that another engine takes over, and that this is told and counted."""
    old, restarts = worker.engine_pid, worker.report["restarts"]
    counted, before = worker.metric("penstock_engine_restarts_total", reason=reason), len(worker.controller.reports)
    os.kill(hurt, number)
    assert reason in worker.reported("verifying", "loading", since=before)["detail"]
    worker.ready()
    assert worker.engine_pid not in (0, old)
    assert group(old) == []
    assert worker.report["restarts"] == restarts + 1
    assert worker.metric("penstock_engine_restarts_total", reason=reason) == counted + 1
    assert worker.complete().status_code == 200


def test_a_killed_engine_is_replaced(worker: WorkerProcess) -> None:
    """After a kill -9 of the engine the worker leaves the ready state at once and comes back with a new engine."""
    recovers(worker, "crash", hurt=worker.engine_pid, number=signal.SIGKILL)


@pytest.mark.drill
def test_a_killed_engine_core_is_replaced(worker: WorkerProcess) -> None:
    """The engine's inner process dying alone is noticed, too, and its outer one does not stay behind."""
    core = psutil.Process(worker.engine_pid).children(recursive=True)[0].pid
    recovers(worker, "crash", hurt=core, number=signal.SIGKILL)
    details = [report["detail"] for report in worker.controller.reports]
    assert any("the engine's core was killed by SIGKILL" in detail for detail in details), "its server ends with code 0"


@pytest.mark.drill
def test_a_server_without_a_core_does_not_wait_for_a_call_that_hangs(worker: WorkerProcess) -> None:
    """The server never ends a question to a dead core, and its orderly end waits for it: that looked like a hang."""
    core = psutil.Process(worker.engine_pid).children(recursive=True)[0].pid
    os.kill(core, signal.SIGSTOP)
    body = {"model": worker.version, "forget": False, "learned": None}
    with ThreadPoolExecutor(1) as asking:
        hangs = asking.submit(worker.post, "/penstock/steps", body, TicketMaker(tenant=PLATFORM))
        time.sleep(0.5)
        recovers(worker, "crash", hurt=core, number=signal.SIGKILL)
        assert isinstance(hangs.exception(), httpx.TransportError), "its connection ends with the server"


def test_a_frozen_engine_is_replaced(worker: WorkerProcess) -> None:
    """An engine that stops without dying is found by its missing progress, killed and replaced."""
    recovers(worker, "hang", hurt=worker.engine_pid, number=signal.SIGSTOP)


def test_a_pause_of_the_agent_is_no_evidence(worker: WorkerProcess) -> None:
    """An agent that stood still, for longer than an engine may, finds the same engine at work, and lets it work on."""
    old, restarts = worker.engine_pid, worker.report["restarts"]
    with worker.stream(200) as lines:
        for pause_s in (0.6, 1.2, 2.0, 5.0, 12.0):
            with stopped(worker.report["pid"]):
                next(lines)
                time.sleep(pause_s)
            time.sleep(0.5)
    worker.ready()
    assert (worker.engine_pid, worker.report["restarts"]) == (old, restarts)
    assert worker.complete().status_code == 200


@pytest.mark.drill
def test_a_frozen_engine_core_is_replaced(worker: WorkerProcess) -> None:
    """An engine with a frozen core behind an answering HTTP server is found as well."""
    core = psutil.Process(worker.engine_pid).children(recursive=True)[0].pid
    recovers(worker, "hang", hurt=core, number=signal.SIGSTOP)


def test_weights_that_were_altered_do_not_serve_after_a_restart(
    start_worker: WorkerMaker, worker_settings: Settings, versions: dict[str, str]
) -> None:
    """Finding 10: weights that change on disk while an engine runs are found and replaced before the next start."""
    version = versions["minilm"]
    worker = start_worker(version).ready()
    weights = next(worker_settings.paths.cache.glob(f"{version.partition('@')[2]}*/model.safetensors"))
    sound = weights.read_bytes()
    assert weights.stat().st_mode & 0o777 == 0o444
    weights.chmod(0o644)
    with weights.open("r+b") as file:
        file.seek(len(sound) // 2)
        file.write(bytes(byte ^ 0xFF for byte in sound[len(sound) // 2 :][:64]))
    before = len(worker.controller.reports)
    os.kill(worker.engine_pid, signal.SIGKILL)
    worker.reported("verifying", "fetching", since=before)
    worker.ready()
    since = {report["state"] for report in worker.controller.reports[before:]}
    assert {"verifying", "fetching"} <= since
    assert "cached_version_damaged" in worker.log.read_text()
    assert weights.read_bytes() == sound


def test_wrong_golden_answers_refuse_readiness(start_worker: WorkerMaker, publish_minilm: Publisher) -> None:
    """A worker with a wrong answer to a golden prompt never becomes ready, ends as failed and says why."""
    wrong = GoldenPrompt(prompt="A kitten sleeps.", near="Interest rates rose.", far="A young cat is napping.")
    worker = start_worker(publish_minilm(golden=(wrong,)))
    assert worker.ended() == 1
    assert "ready" not in worker.controller.states
    assert worker.state == "failed"
    assert worker.report["detail"].startswith("golden prompt 1 of 1: expected the near text")
    assert worker.report["end"] == "wrong_answers"


def test_an_engine_that_can_not_start_ends_in_a_crash_loop_stop(
    start_worker: WorkerMaker, publish_minilm: Publisher
) -> None:
    """After several failed starts the worker stops trying, and its last report holds the engine's own reason."""
    version = publish_minilm(engine=EngineSettings(max_model_len=100_000, dtype="float32"))
    worker = start_worker(version)
    assert worker.ended(within_s=60) == 1
    assert worker.state == "failed"
    assert "gave up after repeated failures" in worker.report["detail"]
    assert "max_model_len" in worker.report["detail"]
    assert (worker.report["restarts"], worker.report["end"]) == (5, "gave_up")


def test_an_unknown_version_fails_with_its_reason(start_worker: WorkerMaker, versions: dict[str, str]) -> None:
    """A version that the store does not have ends the worker without an engine."""
    worker = start_worker("nothing@000000000000")
    assert worker.ended() == 1
    assert "nothing@000000000000" in worker.report["detail"]
    assert worker.report["end"] == "refused"
    assert worker.engine_pid == 0
