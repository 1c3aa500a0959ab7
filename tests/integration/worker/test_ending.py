"""How a worker ends: drained, told to by the controller, forced, or killed."""

import os
import signal
import time

import httpx
import pytest

from tests.support.patience import until
from tests.support.variants import drilled
from tests.support.workers.process import WorkerMaker, WorkerProcess, group

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]


def refused_as_draining(worker: WorkerProcess) -> bool:
    return bool(worker.complete().headers.get("x-penstock-refused") == "draining")


@pytest.mark.parametrize("is_ordered", [*drilled([False]), True])
def test_a_first_signal_drains(start_worker: WorkerMaker, versions: dict[str, str], is_ordered: bool) -> None:
    """After SIGTERM it reports draining at once, refuses new work, lets a running stream end, and exits with 0."""
    worker = start_worker(versions["smollm2"]).ready()
    engine = worker.engine_pid
    with worker.stream(max_tokens=150) as lines:
        next(lines)
        if is_ordered:
            worker.controller.desired = "drain"
            worker.reported("draining")
        worker.signal(signal.SIGTERM)
        worker.reported("draining")
        until("new work is refused", lambda: refused_as_draining(worker), within_s=10)
        rest = list(lines)
    assert rest[-1] == "data: [DONE]"
    assert len(rest) >= 145
    assert worker.ended(within_s=15) == 0
    assert group(engine) == []
    assert worker.controller.states[-2:] == ["draining", "stopped"]
    assert worker.report["end"] == "drained"


def test_the_controller_can_ask_for_a_drain(start_worker: WorkerMaker, versions: dict[str, str]) -> None:
    """An answer of the controller that desires a drain does what SIGTERM does, and is no notice of a machine's end."""
    worker = start_worker(versions["minilm"], notice_s="120").ready()
    worker.controller.desired = "drain"
    assert worker.ended(within_s=15) == 0
    assert (worker.state, worker.report["end"]) == ("stopped", "drained")


def test_a_signal_on_a_machine_that_may_be_taken_is_its_notice(
    start_worker: WorkerMaker, versions: dict[str, str]
) -> None:
    """Without an order to end, the worker says with its first report of it that the machine is taken away."""
    worker = start_worker(versions["minilm"], notice_s="120").ready()
    worker.signal(signal.SIGTERM)
    assert worker.reported("draining")["end"] == "notice"
    assert worker.ended(within_s=15) == 0


def test_a_second_signal_forces(start_worker: WorkerMaker, versions: dict[str, str]) -> None:
    """A second SIGTERM ends the engine and the worker at once, running streams or not."""
    worker = start_worker(versions["smollm2"]).ready()
    engine = worker.engine_pid
    with worker.stream(max_tokens=1800) as lines:
        next(lines)
        worker.signal(signal.SIGTERM)
        worker.reported("draining")
        worker.signal(signal.SIGTERM)
        began = time.monotonic()
        assert worker.ended(within_s=10) == 2
        assert time.monotonic() - began < 8
        with pytest.raises(httpx.HTTPError):
            list(lines)
    assert group(engine) == []


def test_a_killed_agent_leaves_no_engine(start_worker: WorkerMaker, versions: dict[str, str]) -> None:
    """After a kill -9 of the agent the kernel kills the whole engine, even a frozen one."""
    worker = start_worker(versions["minilm"]).ready()
    engine = worker.engine_pid
    assert len(group(engine)) >= 2
    os.kill(engine, signal.SIGSTOP)
    worker.signal(signal.SIGKILL)
    until("the engine is gone", lambda: group(engine) == [], within_s=3)


def test_a_worker_needs_no_controller(start_worker: WorkerMaker, versions: dict[str, str]) -> None:
    """Without a controller to report to, a worker becomes ready and serves all the same."""
    worker = start_worker(versions["minilm"], controller_url="http://127.0.0.1:9")
    until("its page says ready", lambda: ready_page(worker), within_s=60)


def ready_page(worker: WorkerProcess) -> bool:
    try:
        return httpx.get(f"{worker.pages}/readyz", trust_env=False).status_code == 200
    except (AssertionError, httpx.HTTPError):
        return False


@pytest.mark.slow
@pytest.mark.drill
def test_an_engine_started_from_scratch_serves_the_same(start_worker: WorkerMaker, versions: dict[str, str]) -> None:
    """Without a pre-imported parent vLLM is started as it comes, and its golden prompts hold as well."""
    worker = start_worker(versions["smollm2"], engine_zygote="off").ready(within_s=120)
    assert worker.complete().status_code == 200
    engine = worker.engine_pid
    worker.signal(signal.SIGKILL)
    until("the engine is gone", lambda: group(engine) == [], within_s=3)
