"""A worker that sleeps and wakes: real vLLM, forked again from the pre-imported parent."""

import os
import signal

import pytest

from tests.support.engines.likeness import COUNTING
from tests.support.patience import patient, until
from tests.support.workers.process import WorkerMaker, WorkerProcess, group

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]


def asleep(worker: WorkerProcess) -> bool:
    return worker.state == "sleeping" and not worker.report["holds_memory"]


def told_to_sleep(worker: WorkerProcess) -> None:
    worker.controller.desired = "sleep"
    until("it sleeps", lambda: asleep(worker), within_s=10)


def answer(worker: WorkerProcess) -> str:
    body = {"model": worker.version, "prompt": COUNTING, "max_tokens": 8, "temperature": 0}
    return str(worker.post("/v1/completions", body).json()["choices"][0]["text"])


def test_it_gives_its_memory_back_and_answers_as_before(worker: WorkerProcess) -> None:
    """Asleep it has no engine and says what a wake takes; woken it has passed its golden prompts and answers alike."""
    said, engine, restarts = answer(worker), worker.engine_pid, worker.report["restarts"]
    told_to_sleep(worker)
    assert group(engine) == []
    assert worker.report["restart_s"] > 0
    worker.controller.desired = "serve"
    worker.ready()
    assert answer(worker) == said
    assert [one["phase"] for one in worker.report["phases"]] == ["waking", "warming"]
    assert worker.report["restarts"] == restarts


def test_an_order_to_sleep_never_ends_a_stream(worker: WorkerProcess) -> None:
    """What runs comes to its end, token for token; new work hears at once that the worker sleeps."""
    with worker.stream(max_tokens=150) as lines:
        next(lines)
        worker.controller.desired = "sleep"
        until("it says that it sleeps", lambda: worker.state == "sleeping", within_s=5)
        until("new work is refused", lambda: worker.complete().headers.get("x-penstock-refused") == "sleeping")
        assert worker.report["holds_memory"]
        rest = list(lines)
    assert rest[-1] == "data: [DONE]"
    assert len(rest) >= 145
    until("it sleeps", lambda: asleep(worker), within_s=10)


def test_new_demand_reopens_a_gate_whose_streams_still_run(worker: WorkerProcess) -> None:
    """Told to serve before it slept, the same engine serves on, and its stream never noticed."""
    engine = worker.engine_pid
    with worker.stream(max_tokens=120) as lines:
        next(lines)
        worker.controller.desired = "sleep"
        until("it says that it sleeps", lambda: worker.state == "sleeping", within_s=5)
        worker.controller.desired = "serve"
        until("it serves on", lambda: worker.state == "ready", within_s=5)
        assert worker.complete().status_code == 200
        assert list(lines)[-1] == "data: [DONE]"
    assert worker.engine_pid == engine


@pytest.mark.parametrize("wakes", [pytest.param(False, marks=pytest.mark.drill), True])
def test_a_signal_ends_a_sleeper_at_once(start_worker: WorkerMaker, versions: dict[str, str], *, wakes: bool) -> None:
    """There is nothing to drain: asleep or half awake, it ends cleanly and leaves nothing behind."""
    worker = start_worker(versions["minilm"]).ready()
    told_to_sleep(worker)
    if wakes:
        worker.controller.desired = "serve"
        until("it wakes and has an engine", lambda: worker.state == "waking" and worker.engine_pid > 0)
    engine = worker.engine_pid
    worker.signal(signal.SIGTERM)
    assert worker.ended(within_s=patient(8)) == 0
    assert worker.report["end"] == "drained"
    assert not engine or group(engine) == []


def test_an_engine_that_dies_on_the_way_is_started_again(worker: WorkerProcess) -> None:
    """A wake that fails is a failed start: told, counted, tried again, and answered in the end."""
    restarts = worker.report["restarts"]
    told_to_sleep(worker)
    worker.controller.desired = "serve"
    until("it wakes and has an engine", lambda: worker.state == "waking" and worker.engine_pid > 0)
    os.kill(worker.engine_pid, signal.SIGKILL)
    worker.ready()
    assert worker.report["restarts"] == restarts + 1
    assert worker.complete().status_code == 200


def test_a_worker_may_be_told_to_sleep_before_it_ever_ran(start_worker: WorkerMaker, versions: dict[str, str]) -> None:
    """Where there is no room for it, it verifies its files and sleeps; wanted, it starts."""
    worker = start_worker(versions["minilm"])
    worker.controller.desired = "sleep"
    until("it sleeps", lambda: asleep(worker), within_s=30)
    assert "loading" not in worker.controller.states
    worker.controller.desired = "serve"
    worker.ready()
