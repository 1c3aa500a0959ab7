"""The workers' API: the answer to a heartbeat orders its worker to serve, to sleep or to drain.

Reports tolerate unknown fields: workers may be newer than their controller during an upgrade.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Self

import msgspec
from fastapi import APIRouter, Request
from pydantic import ConfigDict, RootModel, model_validator

from penstock.control.api.deps import Controlled, Reporting
from penstock.control.api.wire import JsonRoute, Reported
from penstock.domain.errors import Forbidden, InvalidField
from penstock.domain.fleet.worker import WorkerOrder, WorkerReport
from penstock.domain.ids import VersionId
from penstock.domain.models import curves
from penstock.domain.models.model import ModelVersion

MOST_SECONDS = 14_400
"""Of a start, a wait or a pause in a worker's report: a terabyte of weights is read within four hours."""
SECONDS = frozenset({"seconds", "ready_in_s", "restart_s", "left_s", "wait_s"})
MOST_COUNT = 1_000_000_000
"""Of tokens, requests or blocks in a worker's report: a thousand times what one engine holds."""

router = APIRouter(prefix="/internal", tags=["internal"], route_class=JsonRoute)


class Report(RootModel[WorkerReport]):
    """A worker's report. Its numbers go into the routing table, which every gateway decodes."""

    model_config = ConfigDict(strict=True, frozen=True)

    @model_validator(mode="after")
    def _is_sound(self) -> Self:
        told = msgspec.to_builtins(replace(self.root, curve=None))  # a curve is judged apart
        for name, number in _numbers(told):
            most = MOST_SECONDS if name in SECONDS else MOST_COUNT
            if not 0 <= number <= most:
                raise ValueError(f"{name} of a report is finite, not negative and at most {most:,}")
        if sum(phase.seconds for phase in self.root.phases) > MOST_SECONDS:
            raise ValueError(f"a start takes at most {MOST_SECONDS:,} seconds")
        return self


def _numbers(value: object, name: str = "") -> Iterator[tuple[str, float]]:
    if isinstance(value, dict):
        for field, inside in value.items():
            yield from _numbers(inside, field)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _numbers(one, name)
    elif isinstance(value, int | float):
        yield name, value


@dataclass(frozen=True, slots=True, kw_only=True)
class Desired:
    """The order to a worker, the adapters that it loads first and keeps, and the versions that its node's cache is to
    hold; none if not known, as on standby.
    """

    desired: WorkerOrder
    pinned: tuple[VersionId, ...] | None = None
    ahead: tuple[VersionId, ...] | None = None
    batch_slots: int | None = None
    """Slots that batch work may hold beside other work; none for no bound."""


@router.get("/versions/{version}")
async def version(control: Controlled, reporting: Reporting, version: VersionId) -> ModelVersion:
    """Show a worker the version that it was started for, or an adapter of it, with its full digest."""
    if not await control.registry.may_ask(reporting[1], version):
        raise Forbidden("a worker asks for the version that it was started for, or for adapters of that one")
    return await control.registry.version(version)


@router.post("/workers/heartbeat", response_model_exclude_none=True)
async def heartbeat(control: Controlled, reporting: Reporting, request: Request, body: Reported[Report]) -> Desired:
    """Take a worker's report in memory: answered even if the database is unavailable."""
    report, orders = body.root, control.orders
    if (report.worker, report.version) != reporting:
        raise Forbidden("a worker reports for itself alone, and for the version that it was started for")
    url = control.addresses.reached_at(report.url, request.client.host if request.client else "")
    curve = None
    with suppress(InvalidField):  # a worker with a curve that no engine could have serves on without it
        curve = report.curve and curves.check(report.curve, control.clock.now())
    control.heartbeats.take(replace(report, url=url, curve=curve))
    return Desired(
        desired=orders.desired(report.worker, report.state),
        pinned=orders.pinned(report.version),
        ahead=orders.ahead(report.worker),
        batch_slots=orders.batch_slots(report.version),
    )
