"""Records of ended requests: made in the gateway, stored on its disk, shown to permitted callers."""

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
CROWD = "refused"
"""The folder of a flood's refusals, inside the records' folder."""
CROWD_PART = 8
"""The part of the records' bytes for a flood's refusals: an eighth, some 100,000 of them in 32 MiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordParts:
    records: Records
    folder: RecordFolder
    crowd: RecordFolder
    asking: RecordLookup

    async def explain(self, who: Principal, request_id: str) -> object:
        return shown(await self.asking.find(who, request_id))


def recording(settings: GatewaySettings, clock: Clock, metrics: Metrics) -> RecordParts:
    count = metrics.counter(names.RECORDS_LOST).inc
    whole, keep_s = settings.records_bytes, settings.records_days * DAY_S
    bounds = Bounds(most_bytes=whole - whole // CROWD_PART, keep_s=keep_s)
    folder = RecordFolder(settings.paths.records, bounds, clock, count)
    crowded = Bounds(most_bytes=whole // CROWD_PART, keep_s=keep_s)
    crowd = RecordFolder(settings.paths.records / CROWD, crowded, clock, count)
    records = Records(folder.keep, slos.load(), clock, crowd=crowd.keep)
    return RecordParts(records=records, folder=folder, crowd=crowd, asking=RecordLookup(folder, crowd))
