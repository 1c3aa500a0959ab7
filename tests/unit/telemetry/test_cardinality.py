"""How many series a busy platform has: bounded by what is served and by the tenants that are named, not by callers."""

import itertools
import re
from dataclasses import replace

import psutil
import pytest

from penstock.domain.fleet.table import WorkerEntry
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import TenantId, VersionId, WorkerId
from penstock.domain.models.model import Tier
from penstock.domain.outcome import Outcome, Stage
from penstock.domain.serving.request import Api
from penstock.domain.tokens import Usage
from penstock.gateway.calls.call import Answer
from penstock.gateway.records.requests import RequestLedger
from penstock.telemetry import logs, names
from penstock.telemetry.definitions import MetricKind
from penstock.telemetry.metrics import Metrics
from penstock.telemetry.names import CATALOGUE
from penstock.telemetry.series import STARTED
from penstock.telemetry.tenants import HALVE_AT, OTHER, TenantLabels
from tests.support.samples import calls

MODELS = ("chat-small", "chat-large", "embed")
NAMED_TENANTS = 50
MOST_SERIES = 6_850
"""Of one gateway that serves three models to any number of tenants, each of whom meets six ends in its usual API. A
Prometheus of 2 GiB holds a million."""
BY_TENANT = (names.TENANT_TTFT_SECONDS, names.TENANT_ITL_SECONDS, names.TENANT_QUEUE_SECONDS)
MOST_OF_A_TENANT, MOST_OF_A_ZONE = 27, 40
"""Series of these histograms for one tenant, and of the two by zone for one zone: buckets, their end, sum, count."""
ENDS = (Outcome.OK, Outcome.OVER_LIMIT, Outcome.BAD_REQUEST, Outcome.CANCELLED, Outcome.DEADLINE, Outcome.NO_CAPACITY)


@pytest.fixture(autouse=True)
def _quiet(capsys: pytest.CaptureFixture[str]) -> None:
    """Keep the lines of thousands of requests to ourselves."""
    logs.configure("gateway", level="error")


def busy(tenants: int, zones: tuple[str, ...] = ("",)) -> Metrics:
    """Return the metrics of a gateway after requests of so many tenants, for all models, with all usual ends."""
    metrics = Metrics()
    ledger = RequestLedger(metrics, lambda: 1.0, tenants=TenantLabels(NAMED_TENANTS))
    versions = {name: replace(calls.VERSION, id=VersionId(f"{name}@1"), tier=Tier.CHAT) for name in MODELS}
    for name, number, end in itertools.product(MODELS, range(tenants), ENDS):
        api = Api.EMBEDDINGS if name == "embed" else Api.CHAT
        call = calls.call(version=versions[name], api=api, stream=True)
        call = replace(call, principal=replace(call.principal, tenant=TenantId(f"tenant-{number}")))
        for stage in Stage:
            call.timings.put(stage, 0.01)
        call.attempts.worker = WorkerEntry(
            id=WorkerId("w"), url="", state=WorkerState.READY, zone=zones[number % len(zones)]
        )
        ledger.record(call, Answer(outcome=end, usage=Usage(), ttft_s=0.1, itl_s=(0.01,)))
        ledger.refused_early(call.principal.tenant, end)
    return metrics


def series(metrics: Metrics) -> int:
    return sum(not line.startswith("#") for line in metrics.exposition().decode().splitlines())


def test_a_busy_gateway_stays_under_the_stated_number_of_series() -> None:
    """Fifty tenants by name and all others together, on three models, with every usual end."""
    assert series(busy(NAMED_TENANTS + 1)) < MOST_SERIES


def test_times_by_tenant_and_zone_have_few_series() -> None:
    """Each named tenant and all others together, and each zone of workers, cost a fixed number, however busy."""
    metrics = busy(NAMED_TENANTS + 20, zones=("z1", "z2"))
    lines = [line for line in metrics.exposition().decode().splitlines() if not line.startswith("#")]
    by_tenant = [line for line in lines if line.startswith(tuple(one.name for one in BY_TENANT))]
    of_zones = (names.ZONE_TTFT_SECONDS.name, names.ZONE_ITL_SECONDS.name)
    by_zone = [line for line in lines if line.startswith(of_zones)]
    assert len({re.findall(r'tenant="([^"]*)"', line)[0] for line in by_tenant}) == NAMED_TENANTS + 1
    assert 0 < len(by_tenant) <= MOST_OF_A_TENANT * (NAMED_TENANTS + 1)
    assert 0 < len(by_zone) <= MOST_OF_A_ZONE * 2
    assert all(any(line.startswith(one.name) for line in by_tenant) for one in BY_TENANT)
    assert all(any(line.startswith(one) for line in by_zone) for one in of_zones)


def test_more_tenants_are_no_more_series() -> None:
    """Whoever comes beyond those that are named adds to others."""
    assert series(busy(NAMED_TENANTS + 1)) == series(busy(3 * NAMED_TENANTS))


def test_every_end_of_a_named_tenant_is_there_from_its_first_request_on() -> None:
    """Its first failure is a rise from 0, which a rate sees, and no series that begins at 1."""
    metrics = Metrics()
    ledger = RequestLedger(metrics, lambda: 1.0)
    ledger.record(calls.call(version=calls.VERSION), Answer(outcome=Outcome.OK, usage=Usage()))
    found = {
        sample.labels["outcome"]: sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == "penstock_requests_total"
    }
    assert found == {outcome.value: float(outcome is Outcome.OK) for outcome in Outcome}


def test_a_page_says_once_when_its_process_started() -> None:
    """Without it nobody knows whether a counter's first value is of the window: three requests were called unknown."""
    metrics = Metrics()
    metrics.tell_start()
    for page in (metrics.exposition(), metrics.openmetrics()):
        (line,) = [line for line in page.decode().splitlines() if line.startswith(f"{STARTED} ")]
        assert float(line.split()[1]) == pytest.approx(psutil.Process().create_time(), abs=5.0)


def test_when_a_counter_was_made_is_no_series() -> None:
    """It would double the series of every counter, for a time that nobody reads."""
    assert "_created" not in busy(1).exposition().decode()


CALLERS_OWN = frozenset({"request", "request_id", "trace_id", "key", "key_id", "alias", "address", "path", "user"})


def test_no_label_has_what_a_caller_may_choose() -> None:
    """No label names a request, a key, an address or a word of a caller: those are without end."""
    assert CALLERS_OWN.isdisjoint(str(label) for metric in CATALOGUE for label in metric.labels)


def test_the_busiest_have_their_names() -> None:
    """Who asks most is named, whoever came first; who asks hardly more takes nobody's place."""
    labels, dropped = TenantLabels(2), list[str]()
    for tenant, requests in (("early", 40), ("busy", 500), ("rival", 60), ("late", 200)):
        for _ in range(requests):
            labels.of(tenant, dropped.append)
    assert dropped == ["early"]
    assert [labels.of(one) for one in ("busy", "late", "early", "rival")] == ["busy", "late", OTHER, OTHER]


def test_last_weeks_busy_give_way() -> None:
    """Counts fade as requests come, so that a name goes to who asks now; memory stays bounded."""
    labels = TenantLabels(1)
    for _ in range(HALVE_AT - 1):
        labels.of("old")
    for number in range(3 * HALVE_AT):
        labels.of("new")
        labels.of(f"once-{number}")
    assert (labels.of("new"), labels.of("old")) == ("new", OTHER)
    assert len(labels._counts) <= HALVE_AT


def test_the_series_of_who_lost_its_name_are_gone() -> None:
    """No series of it is left, and what it asks afterwards is counted with the others."""
    metrics = Metrics()
    ledger = RequestLedger(metrics, lambda: 1.0, tenants=TenantLabels(1))
    for tenant, requests in (("small", 2), ("large", 64), ("small", 1)):
        for _ in range(requests):
            call = calls.call()
            call = replace(call, principal=replace(call.principal, tenant=TenantId(tenant)))
            ledger.record(call, Answer(outcome=Outcome.OK, usage=Usage()))
    told = metrics.exposition().decode()
    assert 'tenant="small"' not in told
    assert 'penstock_requests_total{api="/v1/chat/completions",model="toy",outcome="ok",tenant="large"} 33.0' in told
    assert 'penstock_requests_total{api="/v1/chat/completions",model="toy",outcome="ok",tenant="other"} 32.0' in told


def test_a_gauge_that_a_process_does_not_set_is_not_in_its_page() -> None:
    """Its 0 would be the minimum of all processes, so that a deadline of jobs was always over."""
    metrics = Metrics()
    gauges = [one for one in CATALOGUE if one.kind is MetricKind.GAUGE and not one.labels]
    assert not [one.name for one in gauges if metrics.registry.get_sample_value(one.name) is not None]
    for one in gauges:
        metrics.gauge(one).set(0.0)
        assert metrics.registry.get_sample_value(one.name) == 0.0
    metrics.gauge(names.JOBS_RUNNING).set_function(lambda: 5.0)
    assert metrics.registry.get_sample_value(names.JOBS_RUNNING.name) == 5.0
