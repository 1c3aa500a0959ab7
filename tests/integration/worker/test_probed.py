"""A gateway's probe of a real worker: vLLM that is well, full, or hangs behind a gate that answers."""

import asyncio
import random
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace

import psutil
import pytest

from penstock.connectors.http.client import HttpClient, PoolLimits
from penstock.domain.clock import SystemClock
from penstock.domain.fleet.table import WorkerEntry
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import VersionId, WorkerId
from penstock.domain.models.model import Task
from penstock.domain.tenancy.keys import worker_secret
from penstock.gateway.dispatch.breaker import Breakers
from penstock.gateway.dispatch.prober import Prober, ProberSettings
from penstock.gateway.dispatch.records import FailureEvidence
from penstock.telemetry import names
from penstock.telemetry.metrics import Metrics
from tests.support.failures.stopped import stopped
from tests.support.gateways.breakers import origin
from tests.support.patience import until
from tests.support.samples.calls import VERSION
from tests.support.workers.process import WorkerProcess

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

SEATS = 32
"""Of the demo model."""
PROBES = 6
"""An agent on a busy machine reads its engine's counters more rarely than once a second."""
FINDINGS = ("passed", "busy", "failed", "closed")


def probed(worker: WorkerProcess, *, task: Task = Task.GENERATE, timeout_s: float = 5.0) -> str:
    """Suspect the worker, let a gateway's prober ask, and return what it found."""
    return asyncio.run(_probed(worker, task, timeout_s))


async def _probed(worker: WorkerProcess, task: Task, timeout_s: float) -> str:
    clock, metrics, breakers = SystemClock(), Metrics(), Breakers(random.Random(1))
    platform_key = bytes.fromhex((worker.home / "platform.key").read_text())
    entry = WorkerEntry(id=WorkerId(worker.id), url=worker.report["url"], state=WorkerState.READY)
    breakers.learn([replace(VERSION, id=VersionId(worker.version), task=task, workers=(entry,))], clock.monotonic())
    client = HttpClient(clock=time.monotonic, limits=PoolLimits())
    prober = Prober(
        workers=client,
        breakers=breakers,
        settings=ProberSettings(ticket_key=lambda one: worker_secret(platform_key, one), timeout_s=timeout_s),
        clock=clock,
        metrics=metrics,
    )
    breakers.failed(entry.id, FailureEvidence.ANSWERED, origin(), clock.monotonic())
    running, counted = asyncio.create_task(prober.run()), metrics.counter(names.PROBES)
    try:
        async with asyncio.timeout(30):
            while True:
                found = [f for f in FINDINGS if counted.labels(reason="answered", outcome=f)._value.get()]
                if found:
                    return found[0]
                await asyncio.sleep(0.01)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await client.close()


def test_an_engine_that_is_well_passes(unhurried: WorkerProcess) -> None:
    """The platform's request goes through the real gate without waiting at its door, and is answered."""
    assert probed(unhurried) == "passed"
    assert unhurried.load()["running"] == 0


def test_a_model_that_embeds_passes(encoder: WorkerProcess) -> None:
    """An engine without completions is asked what it can do."""
    assert probed(encoder, task=Task.EMBED) == "passed"


def test_a_full_engine_is_not_blamed(unhurried: WorkerProcess) -> None:
    """Behind as many streams as it has seats a probe may come too late, and the gate knows that the engine works."""
    with ExitStack() as streams:
        for _ in range(SEATS):
            streams.enter_context(unhurried.stream(150))
        found = {probed(unhurried, timeout_s=0.5) for _ in range(2)}
    assert found <= {"passed", "busy"}
    until("all have left", lambda: unhurried.load()["running"] == 0, within_s=30)


def test_a_long_prompt_beside_probes_is_not_blamed(unhurried: WorkerProcess) -> None:
    """Finding 2: while one prompt of 1100 tokens with log probabilities is worked on, no probe ever fails."""
    prompt = [10 + i % 500 for i in range(1100)]
    body = {"model": unhurried.version, "prompt": prompt, "max_tokens": 1, "prompt_logprobs": 1}
    with ThreadPoolExecutor(1) as callers:
        answer = callers.submit(unhurried.post, "/v1/completions", body)
        found = {probed(unhurried, timeout_s=0.5)}
        while not answer.done():
            found.add(probed(unhurried, timeout_s=0.5))
    assert answer.result().status_code == 200
    assert found <= {"passed", "busy"}


def test_a_core_that_hangs_behind_a_gate_that_answers_is_found(unhurried: WorkerProcess) -> None:
    """The gate answers while the core stands still: no probe passes, and one fails once two readings lay within it."""
    core = psutil.Process(unhurried.engine_pid).children(recursive=True)[0].pid
    found: list[str] = []
    with stopped(core):
        while "failed" not in found and len(found) < PROBES:
            found.append(probed(unhurried, timeout_s=3.0))
    assert found[-1] == "failed"
    assert set(found) <= {"busy", "failed"}
    assert unhurried.complete().status_code == 200
