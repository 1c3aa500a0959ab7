"""Records of ended requests, put together: made in the gateway, kept on its disk, told to callers that may read
them.
"""

from collections.abc import Callable
from dataclasses import dataclass

from penstock.apps import slos
from penstock.apps.settings import GatewaySettings
from penstock.connectors.records import Bounds, RecordFolder
from penstock.domain.clock import Clock
from penstock.domain.errors import PenstockError
from penstock.domain.tenancy.tenant import Principal
from penstock.explain.shown import shown
from penstock.gateway.records import Asking, Early, Records
from penstock.gateway.records.requests import RequestLedger
from penstock.telemetry import names
from penstock.telemetry.metrics import Metrics

DAY_S = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """The maker of records, their folder, and access to them."""

    records: Records
    folder: RecordFolder
    asking: Asking

    async def explain(self, who: Principal, request_id: str) -> object:
        """Return a request's record with its story, or raise like ``Asking.find``."""
        return shown(await self.asking.find(who, request_id))


def recording(settings: GatewaySettings, clock: Clock, metrics: Metrics) -> Recording:
    """Put it together; the folder is there afterwards."""
    bounds = Bounds(most_bytes=settings.records_bytes, keep_s=settings.records_days * DAY_S)
    folder = RecordFolder(settings.paths.records, bounds, clock, metrics.counter(names.RECORDS_LOST).inc)
    records = Records(folder.keep, slos.load(), clock)
    return Recording(records=records, folder=folder, asking=Asking(folder))


def refused_early(records: Records, ledger: RequestLedger) -> Callable[[PenstockError, Early], None]:
    """Return the function that counts, and may keep, a known caller's request that the pipeline never saw."""

    def told(error: PenstockError, early: Early) -> None:
        ledger.refused_early(early.who.tenant, error.outcome)
        records.refused(error, early)

    return told
