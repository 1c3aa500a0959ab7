"""Parts used by several other parts of one gateway."""

import random
from dataclasses import dataclass

from penstock.apps.gateway.records import RecordParts
from penstock.apps.keys import Keys
from penstock.apps.settings import GatewaySettings
from penstock.connectors.http.client import HttpClient
from penstock.connectors.offload import OffloadPool
from penstock.domain.clock import SystemClock
from penstock.gateway.admission.reservations import Spawn
from penstock.gateway.dispatch.ticket_keys import TicketKeys
from penstock.gateway.holding import Asked, WakeDemand
from penstock.gateway.routing import CurrentTable
from penstock.gateway.upkeep.accounting import AccountingParts
from penstock.telemetry.metrics import Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    settings: GatewaySettings
    keys: Keys
    ticket_keys: TicketKeys
    clock: SystemClock
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
