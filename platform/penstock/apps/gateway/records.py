"""Records of ended requests: made in the gateway, kept on its disk, shown to permitted callers."""

from dataclasses import dataclass

from penstock.apps import slos
from penstock.apps.settings import GatewaySettings
from penstock.connectors.records import Bounds, RecordFolder
from penstock.domain.clock import Clock
from penstock.domain.tenancy.tenant import Principal
from penstock.explain.shown import shown
from penstock.gateway.records import RecordLookup, Records
from penstock.telemetry import names
from penstock.telemetry.metrics import Metrics

DAY_S = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordParts:
    records: Records
    folder: RecordFolder
    asking: RecordLookup

    async def explain(self, who: Principal, request_id: str) -> object:
        return shown(await self.asking.find(who, request_id))


def recording(settings: GatewaySettings, clock: Clock, metrics: Metrics) -> RecordParts:
    bounds = Bounds(most_bytes=settings.records_bytes, keep_s=settings.records_days * DAY_S)
    folder = RecordFolder(settings.paths.records, bounds, clock, metrics.counter(names.RECORDS_LOST).inc)
    records = Records(folder.keep, slos.load(), clock)
    return RecordParts(records=records, folder=folder, asking=RecordLookup(folder))
