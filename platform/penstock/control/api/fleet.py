"""Operators: workers, the routing table, the audit log, this controller's state."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import APIRouter, Depends, Query

from penstock.control.api.acts import ActRoute
from penstock.control.api.batch_work import BatchWorkShown, work_of
from penstock.control.api.bodies import RollBack
from penstock.control.api.deps import Control, Controlled, Operator, Reader, Second
from penstock.control.api.safety import check_asked
from penstock.control.api.wire import Sent
from penstock.domain.errors import Conflict, InvalidField
from penstock.domain.fleet.decision import Decided
from penstock.domain.fleet.table import Route, RoutingTable, validate
from penstock.domain.fleet.versions import Seen, Wanted
from penstock.domain.fleet.worker import PhaseTiming, WorkerState
from penstock.domain.ids import VersionId, WorkerId
from penstock.domain.serving.report import Load
from penstock.domain.tenancy.audit import Act, Selection
from penstock.domain.tenancy.owners import Owners

Limit = Annotated[int, Query(ge=1, le=1000)]
_MOST_TRIES = 5
"""Ticks publish at most every 20 ms, and a publication takes a few milliseconds."""
router = APIRouter(tags=["fleet"], route_class=ActRoute)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerShown:
    """A worker as its last heartbeat reported; ``age_s`` is how long ago that was. ``machine_s`` and ``image_s`` are
    the seconds before its first phase, as its host measured them; 0 if it measures none.
    """

    id: WorkerId
    version: VersionId
    state: WorkerState
    url: str
    zone: str
    pools: tuple[str, ...]
    pid: int
    load: Load
    machine_s: float
    image_s: float
    phases: tuple[PhaseTiming, ...]
    detail: str
    ready_in_s: float
    restarts: int
    age_s: float
    draining: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerList:
    """Workers, silent and failed ones too."""

    workers: tuple[WorkerShown, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRenewed:
    """A worker that will be replaced."""

    worker: WorkerId
    version: VersionId


@dataclass(frozen=True, slots=True, kw_only=True)
class TableShown:
    """A table in the history."""

    number: int
    made_at: float
    routes: tuple[Route, ...]
    workers: int
    ready: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TableList:
    """Published tables, newest first."""

    tables: tuple[TableShown, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ActList:
    """Administrative acts, newest first."""

    acts: tuple[Act, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionList:
    """The controller's own decisions, newest first."""

    decisions: tuple[Decided, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolShown:
    """Memory for engines on the workers' machine: its limit, what awake workers hold, the versions waited for."""

    limit_bytes: int
    held_bytes: int
    waited_for: tuple[Wanted, ...]
    unfit: tuple[str, ...] = ()
    """Deployed versions larger than the limit, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """This controller at a glance."""

    leader: bool
    leader_name: str
    """Host and process id of the controller that leads; empty without one."""
    ready: bool
    table: int
    table_made_at: float
    failed_ticks: int
    workers: Mapping[str, int]
    """Workers by state."""
    held: tuple[str, ...] = ()
    """Changes that the workers' host could not make, and the remedies."""
    certificate_ends_at: float | None = None
    """The certificate's expiry in Unix seconds; null without a certificate."""
    limits_shared: bool = False
    """Whether all gateways share one store of limits and budgets."""
    pool: PoolShown | None = None
    """Null if the pool has no limit, so that every deployed version is awake."""
    batch_work: BatchWorkShown


@router.get("/workers")
async def workers(control: Controlled, _: Operator) -> WorkerList:
    """List workers, silent and failed ones too."""
    return WorkerList(workers=tuple(_worker(control, one) for one in await control.heartbeats.seen()))


@router.post("/workers/{worker}/restart", status_code=202)
async def restart(control: Controlled, caller: Operator, worker: WorkerId) -> WorkerRenewed:
    """Replace one worker: its successor is ready before it drains."""
    act = control.act(caller, "worker.restart", worker)
    seen = await control.heartbeats.seen()
    version = next((one.report.version for one in seen if one.report.worker == worker), None)
    if version is None:
        raise InvalidField(f"there is no worker {worker}", param="worker")
    await control.registry.renew_worker(version, worker, act)
    return WorkerRenewed(worker=worker, version=version)


@router.get("/table")
async def table(control: Controlled, _: Operator) -> RoutingTable:
    """Show the table in force."""
    return await control.tables.latest()


@router.get("/table/history")
async def history(control: Controlled, _: Operator, limit: Limit = 50) -> TableList:
    """List tables, newest first."""
    return TableList(tables=tuple(_table(one) for one in await control.tables.history(limit)))


@router.post("/table/rollback")
async def roll_back(control: Controlled, caller: Operator, body: Sent[RollBack]) -> TableShown:
    """Publish an older table's routes and versions under a new number, with the workers that live now.

    The aliases are restored too, so that the next tick publishes the same.
    """
    act = control.act(caller, "table.rollback")
    old = await control.tables.numbered(body.number)
    if old is None:
        raise InvalidField(f"there is no table {body.number}", param="number")
    latest = await control.tables.latest()
    await control.rollouts.check_free({one.alias for one in {*old.routes} ^ {*latest.routes}})
    await check_asked(control, lambda known: replace(known, routes=old.routes))
    await control.registry.restore_routes(old.routes, old.autos, replace(act, target=str(old.number)))
    return _table(await _published(control, old))


def _selection(since: Second = 0.0, until: Second = 0.0, who: str = "", what: str = "") -> Selection:
    return Selection(since=since, until=until, who=who, what=what)


@router.get("/audit")
async def audit(
    control: Controlled, caller: Reader, of: Annotated[Selection, Depends(_selection)], limit: Limit = 50
) -> ActList:
    """List administrative acts, newest first: all to operators, those about its own tenant to any other key."""
    return ActList(acts=await control.audit.newest(limit, tenant=caller.reach, of=of))


@router.get("/decisions")
async def decisions(control: Controlled, _: Operator, limit: Limit = 50) -> DecisionList:
    """List the controller's own decisions, newest first, each with its signal and its objective."""
    return DecisionList(decisions=control.decisions.newest(limit))


@router.get("/status")
async def status(control: Controlled, _: Operator) -> Status:
    """Show this controller at a glance."""
    runtime, latest = control.runtime, await control.tables.latest()
    states = Counter(str(one.report.state) for one in await control.heartbeats.seen())
    return Status(
        leader=runtime.leads,
        leader_name=await control.leader(),
        ready=runtime.is_ready,
        table=latest.number,
        table_made_at=latest.made_at,
        failed_ticks=runtime.failed_ticks,
        workers=dict(states),
        held=control.orders.held,
        certificate_ends_at=control.certificate_ends_at(),
        limits_shared=control.meters is not None,
        pool=_pool(control),
        batch_work=await work_of(control),
    )


async def _published(control: Control, old: RoutingTable) -> RoutingTable:
    """Publish an older table anew; again if a tick published a table meanwhile."""
    owners, tries = await control.registry.owners(), 0
    while True:
        table = validate(_revived(old, await control.tables.latest(), owners, control.clock.now()))
        try:
            await control.tables.publish(table)
        except Conflict:
            tries += 1
            if tries == _MOST_TRIES:
                raise
        else:
            return table


def _pool(control: Control) -> PoolShown | None:
    if not control.pool_bytes:
        return None
    runtime = control.runtime
    return PoolShown(
        limit_bytes=control.pool_bytes,
        held_bytes=runtime.held_bytes,
        waited_for=runtime.waited_for,
        unfit=runtime.unfit,
    )


def _worker(control: Control, one: Seen) -> WorkerShown:
    report, process = one.report, control.runtime.running.get(one.report.worker)
    return WorkerShown(
        id=report.worker,
        version=report.version,
        state=report.state,
        url=report.url,
        zone=report.zone,
        pools=report.pools,
        pid=report.pid,
        load=report.load,
        machine_s=process.machine_s if process else 0.0,
        image_s=process.image_s if process else 0.0,
        phases=report.phases,
        detail=report.detail,
        ready_in_s=report.ready_in_s,
        restarts=report.restarts,
        age_s=round(max(0.0, control.clock.now() - one.at), 3),
        draining=control.orders.wants_drained(report.worker),
    )


def _revived(old: RoutingTable, latest: RoutingTable, owners: Mapping[VersionId, Owners], now: float) -> RoutingTable:
    workers = {version.id: version.workers for version in latest.versions}
    versions = tuple(
        replace(version, workers=workers.get(version.id, ()), tenants=owners.get(version.id))
        for version in old.versions
    )
    return RoutingTable(number=latest.number + 1, made_at=now, routes=old.routes, versions=versions, autos=old.autos)


def _table(table: RoutingTable) -> TableShown:
    workers = [worker for version in table.versions for worker in version.workers]
    return TableShown(
        number=table.number,
        made_at=table.made_at,
        routes=table.routes,
        workers=len(workers),
        ready=sum(worker.state.serves for worker in workers),
    )
