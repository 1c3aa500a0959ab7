"""What becomes of a request that was refused before its body was read: it is counted by its tenant, and kept."""

from dataclasses import replace

from penstock.apps import slos
from penstock.domain.errors import OverLimit
from penstock.domain.ids import RequestId, TenantId
from penstock.domain.serving.request import Api
from penstock.domain.serving.request_record import RequestRecord
from penstock.gateway.records import Early, Records, refused_early
from penstock.gateway.records.requests import RequestLedger
from penstock.telemetry.metrics import Metrics
from penstock.telemetry.tenants import TenantLabels
from tests.support.clock import ManualClock
from tests.support.samples import calls


def test_early_refusals_are_counted_by_tenant(clock: ManualClock) -> None:
    """Who floods at its limit is seen by name, whatever the corridor saw of it; beyond the named it is other."""
    metrics, kept = Metrics(), list[RequestRecord]()
    ledger = RequestLedger(metrics, clock.monotonic, tenants=TenantLabels(1))
    told = refused_early(Records(kept.append, slos.load(), clock), ledger)
    for tenant in ("flood", "flood", "late"):
        who = replace(calls.call().principal, tenant=TenantId(tenant))
        told(OverLimit("too many"), Early(RequestId("r"), who, Api.CHAT, clock.monotonic(), {}))
    page = metrics.exposition().decode()
    assert 'penstock_early_refusals_total{outcome="over_limit",tenant="flood"} 2.0' in page
    assert 'penstock_early_refusals_total{outcome="over_limit",tenant="other"} 1.0' in page
    assert [record.tenant for record in kept] == ["flood", "flood", "late"]
