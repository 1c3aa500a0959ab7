"""Parts used by several other parts of one gateway, the records of ended requests among them."""

import random
from dataclasses import dataclass, field

from penstock.apps import slos
from penstock.apps.keys import Keys
from penstock.connectors.http.client import HttpClient
from penstock.connectors.offload.pool import OffloadPool
from penstock.connectors.records.folder import FolderBounds, RecordFolder
from penstock.domain.clock import DAY_S, Clock
from penstock.domain.tenancy.tenant import Principal
from penstock.explain.story import shown
from penstock.filters.book import CurrentPacks
from penstock.gateway.admission.reservations import Spawn
from penstock.gateway.dispatch.ticket_keys import TicketKeys
from penstock.gateway.holding import Asked, WakeDemand
from penstock.gateway.records.asking import RecordLookup
from penstock.gateway.records.making import Records
from penstock.gateway.routing.current import CurrentTable
from penstock.gateway.upkeep.accounting import AccountingParts
from penstock.settings.pipeline import PipelineSettings
from penstock.telemetry import names
from penstock.telemetry.metrics import Metrics

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


def recording(settings: PipelineSettings, clock: Clock, metrics: Metrics) -> RecordParts:
    count = metrics.counter(names.RECORDS_LOST).inc
    whole, keep_s = settings.records_bytes, settings.records_days * DAY_S
    bounds = FolderBounds(most_bytes=whole - whole // CROWD_PART, keep_s=keep_s)
    folder = RecordFolder(settings.paths.records, bounds, clock, count)
    crowded = FolderBounds(most_bytes=whole // CROWD_PART, keep_s=keep_s)
    crowd = RecordFolder(settings.paths.records / CROWD, crowded, clock, count)
    records = Records(folder.keep, slos.load(), clock, crowd=crowd.keep)
    return RecordParts(records=records, folder=folder, crowd=crowd, asking=RecordLookup(folder, crowd))


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    settings: PipelineSettings
    keys: Keys
    ticket_keys: TicketKeys
    clock: Clock
    metrics: Metrics
    chance: random.Random
    table: CurrentTable
    client: HttpClient
    probing: HttpClient
    """The client for the platform's probes: one open connection to each worker, and one for a second question."""
    accounting: AccountingParts
    recording: RecordParts
    spawn: Spawn
    offload: OffloadPool
    demand: WakeDemand
    asked: Asked
    packs: CurrentPacks = field(default_factory=CurrentPacks)
