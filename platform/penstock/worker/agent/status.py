"""A worker's metrics, and the pages of its small server.

The metrics page joins the agent's and the gate's metrics with the engine's, translated to the platform's names.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from typing import TypeVar

from penstock.domain.fleet.worker import PhaseTiming, WorkerReport, WorkerState
from penstock.domain.ids import VersionId, WorkerId
from penstock.telemetry import names
from penstock.telemetry.metrics import CONTENT_TYPE, Metrics
from penstock.telemetry.pages import LIVE, METRICS, READY, Page
from penstock.worker.agent.gate_client import GateClient
from penstock.worker.agent.health import Cause
from penstock.worker.engines import translate

CATALOGUE = (
    names.WORKER_STATE,
    names.PHASE_SECONDS,
    names.ENGINE_RESTARTS,
    names.PROBE_SECONDS,
    names.WORKER_INFO,
    names.CERTIFICATE_STARTS_AT,
    names.CERTIFICATE_ENDS_AT,
    names.WORKER_DEVICES,
)
T = TypeVar("T")


class WorkerMetrics:
    def __init__(self, version: VersionId, worker: WorkerId, zone: str) -> None:
        self.metrics = Metrics(CATALOGUE)
        self.metrics.tell_start()
        self.metrics.gauge(names.WORKER_INFO).labels(version=version, worker=worker, zone=zone).set(1)
        self._version = version
        self._states = {s: self.metrics.gauge(names.WORKER_STATE).labels(version, s) for s in WorkerState}
        self._restarts = {c: self.metrics.counter(names.ENGINE_RESTARTS).labels(version, c) for c in Cause}
        self._probe = self.metrics.histogram(names.PROBE_SECONDS).labels(version)

    def state(self, state: WorkerState) -> None:
        for each, gauge in self._states.items():
            gauge.set(each is state)

    def devices(self, kind: str, number: int) -> None:
        self.metrics.gauge(names.WORKER_DEVICES).labels(version=self._version, device=kind).set(number)

    def phase(self, timing: PhaseTiming) -> None:
        self.metrics.histogram(names.PHASE_SECONDS).labels(self._version, timing.phase).observe(timing.seconds)

    def restart(self, cause: Cause) -> None:
        self._restarts[cause].inc()

    def probed(self, seconds: float) -> None:
        self._probe.observe(seconds)


def pages(report: Callable[[], WorkerReport], metrics: WorkerMetrics, client: GateClient) -> Mapping[str, Page]:
    async def health() -> tuple[int, str, bytes]:
        return 200, "text/plain", b"ok\n"

    async def ready() -> tuple[int, str, bytes]:
        now = report()
        return (200 if now.state.serves else 503), "application/json", json.dumps(asdict(now)).encode()

    async def exposition() -> tuple[int, str, bytes]:
        gate, numbers = await asyncio.gather(_or(client.exposition(), b""), _or(client.numbers(), None))
        engine = translate.exposition(numbers, client.version).encode() if numbers else b""
        return 200, CONTENT_TYPE, metrics.metrics.exposition() + gate + engine

    return {LIVE: health, READY: ready, METRICS: exposition}


async def _or(reading: Awaitable[T], default: T) -> T:
    try:
        return await reading
    except OSError:
        return default
