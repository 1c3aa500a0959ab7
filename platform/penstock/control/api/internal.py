"""Workers report here; the answer says whether to go on, to sleep, or to go.

A report is typed like an operator's body, and tolerates fields that it does not know: workers may be newer than their
controller while a platform is upgraded.
"""

from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import BeforeValidator, ConfigDict, RootModel

from penstock.control.api.deps import Controlled, Reporting
from penstock.control.api.wire import JsonRoute, Sent
from penstock.domain.errors import Forbidden
from penstock.domain.fleet.worker import WorkerOrder, WorkerReport
from penstock.domain.ids import VersionId
from penstock.domain.models.model import ModelVersion

router = APIRouter(prefix="/internal", tags=["internal"], route_class=JsonRoute)
_NUL = b"\\u0000"
"""The engine's last words may hold one, and the database holds none."""


class Report(RootModel[WorkerReport]):
    """A worker's report."""

    model_config = ConfigDict(strict=True, frozen=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Desired:
    """The order to a worker, and the adapters it loads first and holds; null if they are not known, as on standby."""

    desired: WorkerOrder
    pinned: tuple[VersionId, ...] | None = None


def _without_nul(raw: object) -> object:
    return raw.replace(_NUL, b" ") if isinstance(raw, bytes) else raw


@router.get("/versions/{version}")
async def version(control: Controlled, reporting: Reporting, version: VersionId) -> ModelVersion:
    """Show a worker the version that it is ordered to serve, or an adapter of it: its full digest above all."""
    if not await control.registry.may_ask(reporting[1], version):
        raise Forbidden("a worker asks for the version that it was started for, or for adapters of that one")
    return await control.registry.version(version)


@router.post("/workers/heartbeat", response_model_exclude_none=True)
async def heartbeat(
    control: Controlled,
    reporting: Reporting,
    request: Request,
    body: Annotated[Sent[Report], BeforeValidator(_without_nul)],
) -> Desired:
    """Take a worker's report: memory only, so it is answered at once with the database away, too."""
    report, orders = body.root, control.orders
    if (report.worker, report.version) != reporting:
        raise Forbidden("a worker reports for itself alone, and for the version that it was started for")
    url = control.addresses.reached_at(report.url, request.client.host if request.client else "")
    control.heartbeats.take(replace(report, url=url))
    return Desired(desired=orders.desired(report.worker, report.state), pinned=orders.pinned(report.version))
