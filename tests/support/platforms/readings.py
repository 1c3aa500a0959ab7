"""A running platform's workers and numbers, read at their source: each gate, engine and gateway."""

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from penstock.domain.outcome import Stage
from penstock.telemetry.definitions import Label, Metric, MetricKind
from penstock.telemetry.names import GATE_SECONDS
from tests.support.patience import until
from tests.support.platforms.local import Platform

QUIET_S = 5.0


@dataclass(frozen=True, kw_only=True)
class Gate:
    """One worker: its id, its gate's address, its processes."""

    worker: str
    version: str
    url: str
    agent_pid: int
    engine_pid: int

    def serves(self, name: str) -> bool:
        """Tell whether this worker's version is of that model."""
        return self.version.startswith(name)

    def load(self) -> dict[str, float]:
        """Return its load; nothing if it does not answer."""
        with suppress(httpx.HTTPError):
            found: dict[str, float] = httpx.get(f"{self.url}/penstock/load", timeout=QUIET_S, trust_env=False).json()
            return found
        return {}

    def is_healthy(self) -> bool:
        """Tell whether its engine says that it lives."""
        with suppress(httpx.HTTPError):
            return httpx.get(f"{self.url}/health", timeout=QUIET_S, trust_env=False).status_code == httpx.codes.OK
        return False

    def number(self, metric: Metric, **labels: str) -> float:
        """Return a metric that the gate counts."""
        return reading(f"{self.url}/penstock/metrics", sample_name(metric), labels)

    def answered(self) -> float:
        """Return how many requests of callers got a first byte from the engine."""
        return reading(f"{self.url}/penstock/metrics", f"{GATE_SECONDS.name}_count", {Label.STAGE: Stage.PREFILL})

    def engine(self, name: str) -> float:
        """Return one of the engine's own numbers."""
        return reading(f"{self.url}/metrics", name, {})


@dataclass(frozen=True, kw_only=True)
class Fleet:
    platform: Platform

    def gates(self) -> list[Gate]:
        """Return the workers that have an engine now."""
        return sorted(self._gates(), key=lambda gate: gate.worker)

    def _gates(self) -> Iterator[Gate]:
        run = self.platform.home / "run"
        for version in self._table().get("versions", []):
            for worker in version["workers"]:
                engine = _pid(run / f"engines/{worker['id']}.pid")
                if worker["url"] and engine:
                    yield Gate(
                        worker=worker["id"],
                        version=version["id"],
                        url=worker["url"],
                        agent_pid=int(_read(run / f"workers/{worker['id']}.json").get("pid") or 0),
                        engine_pid=engine,
                    )

    def running(self) -> int:
        """Return how many requests all engines hold."""
        return sum(int(load.get("running", 0) + load.get("waiting", 0)) for load in self._loads())

    def busy(self) -> list[Gate]:
        """Return the workers that hold a request."""
        return [gate for gate in self.gates() if sum(gate.load().get(k, 0) for k in ("running", "waiting"))]

    def _loads(self) -> list[dict[str, float]]:
        return [gate.load() for gate in self.gates()]

    def ready(self) -> list[str]:
        """Return the ids of the workers that the gateways may send to."""
        return sorted(worker["id"] for worker in self.workers() if worker["state"] == "ready")

    def workers(self) -> list[dict[str, Any]]:
        """Return the workers as the gateways' last table has them."""
        return [worker for version in self._table().get("versions", []) for worker in version["workers"]]

    def _table(self) -> dict[str, Any]:
        return _read(self.platform.home / "run/gateway/table.json")

    def until_ready(self, count: int, *, within_s: float = 90.0) -> None:
        """Wait until this number of workers serve and answer at their gates."""

        def is_ready() -> bool:
            answering = sum(1 for gate in self.gates() if gate.is_healthy())
            return len(self.ready()) == count == answering

        until(f"{count} workers are ready", is_ready, within_s=within_s, every_s=0.1)

    def until_idle(self, *, within_s: float = 30.0) -> None:
        """Wait until no engine holds a request."""
        until("no engine holds a request", lambda: self.running() == 0, within_s=within_s, every_s=0.02)

    def logged(self, request_id: str) -> dict[str, Any]:
        """Return the gateway's log line of a finished request: its worker, attempts, outcome, stages."""
        found: list[dict[str, Any]] = []

        def look() -> bool:
            logs = sorted((self.platform.home / "logs").glob("gateway*.log"))
            lines = [line for log in logs for line in log.read_text().splitlines() if request_id in line]
            found[:] = [entry for line in lines if (entry := json.loads(line)).get("event") == "request"]
            return bool(found)

        until(f"request {request_id} is logged", look, within_s=5)
        assert len(found) == 1, f"a request is logged once, not {len(found)} times"
        return found[0]

    def counted(self, metric: Metric, **labels: str) -> float:
        """Return a metric of the gateway, summed over the labels that are not named."""
        return reading(self.platform.metrics_url, sample_name(metric), labels)


def sample_name(metric: Metric) -> str:
    """Return the metric's name in the text format."""
    return f"{metric.name}_total" if metric.kind is MetricKind.COUNTER else metric.name


def reading(url: str, name: str, labels: dict[str, str]) -> float:
    """Return the sum of a metric's samples that have these labels; 0 without one."""
    page = httpx.get(url, timeout=QUIET_S, trust_env=False).text
    # An engine's page has thousands of lines, and a test that waits reads it again and again.
    text = "\n".join(line for line in page.splitlines() if line.startswith((f"{name}{{", f"{name} ")))
    return sum(
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )


def _pid(path: Path) -> int:
    with suppress(OSError, ValueError):
        return int(path.read_text())
    return 0


def _read(path: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        found: dict[str, Any] = json.loads(path.read_text())
        return found
    return {}
