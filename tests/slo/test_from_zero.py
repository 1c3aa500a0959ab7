"""Counters that alerts and runbooks watch begin at 0, before anything happens: one that appears at 1 shows no rise.

A runbook's query may instead see what appears; a mean of two of them is right without.
"""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from penstock.apps.gateway.front import front
from penstock.apps.gateway.parts import compose
from penstock.apps.keys import Keys
from penstock.connectors.postgres.database import Database
from penstock.control.fleet.shown import FleetMetrics
from penstock.control.pool.shown import PoolMetrics
from penstock.control.rollout.shown import RolloutMetrics
from penstock.domain.clock import SystemClock
from penstock.domain.fleet.versions import Deployment
from penstock.domain.fleet.worker import WorkerReport, WorkerState
from penstock.domain.ids import Alias, WorkerId
from penstock.domain.jobs.ids import RunnerId
from penstock.domain.rollout.rollout import Rollout
from penstock.jobs.shown import RunnerMetrics
from penstock.local.restarts import Restarts
from penstock.settings.processes import GatewaySettings
from penstock.telemetry.metrics import Metrics
from penstock.worker.agent.status import WorkerMetrics
from penstock.worker.engines import translate
from penstock.worker.gate.adapters import AdapterPages
from penstock.worker.gate.asgi import Receive, Scope, Send
from penstock.worker.gate.queueing.adapter_slots import AdapterSlots
from penstock.worker.gate.queueing.admission import AdmissionQueue
from penstock.worker.gate.queueing.residents import Residents
from penstock.worker.gate.queueing.slots import EngineSize
from penstock.worker.gate.tally import Tally
from penstock.worker.gate_config import GateConfig
from tests.support.monitoring import runbooks
from tests.support.monitoring.alert_rules import RULES
from tests.support.samples import control_plane
from tests.support.webhooks.deliverer import deliveries

VERSION = control_plane.TINY
CONFIG = GateConfig(worker=WorkerId("w"), version=VERSION, ticket_key="00", max_num_seqs=4)
RISES = re.compile(r"(?:rate|increase)\((penstock_\w+)(?:\{(.*?)\})?\[")
OTHERWISE = re.compile(r" unless | / |_bucket")
ASKED = [query for book in runbooks.every() for query in book.queries() if not OTHERWISE.search(query)]
WATCHED = sorted(
    {found for query in (*(one["expr"] for one in RULES.values()), *ASKED) for found in RISES.findall(query)}
)


def gateway(home: Path) -> str:
    """Return the page of a gateway that has neither connected nor listened yet."""
    settings = GatewaySettings(home=home, limits_url="unix:///none")
    made = compose(settings, Keys(platform=(b"k",), peppers=(b"p",)))
    front(settings, made)
    made.preprocessor.close()
    return made.exposition().decode()


async def nobody(_: Scope, __: Receive, ___: Send) -> None:
    """Stand in for the engine's app."""


def controller() -> str:
    """Return the page of a controller that knows of one deployment, one rollout, and a worker that wakes."""
    metrics = Metrics()
    waking = WorkerReport(worker=WorkerId("w1"), version=VERSION, state=WorkerState.WAKING, url="")
    PoolMetrics(metrics, limit_bytes=1).heard(replace(waking, state=WorkerState.SLEEPING), waking)
    RolloutMetrics(metrics).show([Rollout(id="r", alias=Alias("chat"), incumbent=VERSION, candidate=VERSION)], {})
    FleetMetrics(metrics).show((Deployment(version=VERSION, replicas=1),), (), after=0.0)
    return metrics.exposition().decode()


def runner() -> str:
    """Return the page of a jobs runner that has claimed nothing."""
    metrics = Metrics()
    RunnerMetrics(metrics)
    return metrics.exposition().decode()


def supervisor() -> str:
    """Return the page of a supervisor of a database."""
    restarts = Restarts(SystemClock())
    restarts.expect("postgres")
    return restarts.metrics.exposition().decode()


def worker() -> str:
    """Return the page of an agent, of the gate of a base of adapters, and of a fresh engine in our names."""
    queue = AdmissionQueue(EngineSize(max_seqs=4, kv_blocks=64, block_size=16, prefill_tokens=512))
    gate = Tally(CONFIG, queue, lambda: 0.0).metrics.exposition().decode()
    gate += AdapterPages(queue, AdapterSlots(1, Residents(4)), nobody, SystemClock(), VERSION).exposition().decode()
    engine = translate.exposition(translate.parse('vllm:num_preemptions_total{engine="0"} 0.0'), VERSION)
    return WorkerMetrics(VERSION, WorkerId("w1"), "a").metrics.exposition().decode() + gate + engine


def deliverer() -> str:
    """Return the page of the deliveries of a runner that has no database yet."""
    work = deliveries(Database("postgresql://nobody@/none"), b"k" * 32, RunnerId(1))
    return work.metrics.exposition().decode()


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, dict[str, str], float]]:
    """Return all samples of all fresh pages."""
    return [
        (sample.name, sample.labels, sample.value)
        for page in (
            gateway(tmp_path_factory.mktemp("home")),
            controller(),
            worker(),
            runner(),
            deliverer(),
            supervisor(),
        )
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    ]


@pytest.mark.parametrize(("name", "labels"), WATCHED, ids=[name for name, _ in WATCHED])
def test_a_watched_counter_begins_at_0(
    samples: list[tuple[str, dict[str, str], float]], name: str, labels: str
) -> None:
    """Its process shows it from the start, with the labels that the alert asks for."""
    wanted = dict(re.findall(r'(\w+)="(.*?)"', labels))
    found = [value for sample, has, value in samples if sample == name and wanted.items() <= has.items()]
    assert found
    assert set(found) == {0.0}
