"""Operators: workers, the routing table, the audit log, this controller's state."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from fastapi import APIRouter, Request, Response

from penstock.control.api.bodies import PoolShown, RollBack, Status, TableShown, WorkerShown
from penstock.control.api.deps import Control
from penstock.control.api.wire import answer, read
from penstock.domain.errors import InvalidField
from penstock.domain.fleet.table import RoutingTable, validate
from penstock.domain.fleet.versions import Seen
from penstock.domain.ids import VersionId, WorkerId
from penstock.domain.tenancy.audit import Selection
from penstock.domain.tenancy.owners import Owners

_MAX_LISTED = 1000


class FleetAndTable:
    """What runs, and what is published to the gateways."""

    def __init__(self, control: Control) -> None:
        self._control = control

    def router(self) -> APIRouter:
        """Return its routes."""
        router = APIRouter(tags=["fleet"])
        router.add_api_route("/workers", self.workers, methods=["GET"])
        router.add_api_route("/workers/{worker}/restart", self.restart, methods=["POST"], status_code=202)
        router.add_api_route("/table", self.table, methods=["GET"])
        router.add_api_route("/table/history", self.history, methods=["GET"])
        router.add_api_route("/table/rollback", self.roll_back, methods=["POST"])
        router.add_api_route("/audit", self.audit, methods=["GET"])
        router.add_api_route("/decisions", self.decisions, methods=["GET"])
        router.add_api_route("/status", self.status, methods=["GET"])
        return router

    async def workers(self, request: Request) -> Response:
        """List workers, silent and failed ones too."""
        await self._control.operator(request)
        return answer({"workers": [self._shown(one) for one in await self._control.heartbeats.seen()]})

    async def restart(self, request: Request, worker: WorkerId) -> Response:
        """Replace one worker: its successor is ready before it drains."""
        act = await self._control.act(request, "worker.restart", worker)
        version = next(
            (one.report.version for one in await self._control.heartbeats.seen() if one.report.worker == worker), None
        )
        if version is None:
            raise InvalidField(f"there is no worker {worker}", param="worker")
        await self._control.registry.renew_worker(version, worker, act)
        self._control.runtime.wake()
        return answer({"worker": worker, "version": version}, 202)

    async def table(self, request: Request) -> Response:
        """Show the table in force."""
        await self._control.operator(request)
        return answer(await self._control.tables.latest())

    async def history(self, request: Request, limit: int = 50) -> Response:
        """List tables, newest first."""
        await self._control.operator(request)
        tables = await self._control.tables.history(_bounded(limit))
        return answer({"tables": [_shown(table) for table in tables]})

    async def roll_back(self, request: Request) -> Response:
        """Publish an older table's routes and versions under a new number, with the workers that live now.

        The aliases go back too, so that the next tick agrees with what was published.
        """
        act = await self._control.act(request, "table.rollback")
        body = await read(request, RollBack)
        old = await self._control.tables.numbered(body.number)
        if old is None:
            raise InvalidField(f"there is no table {body.number}", param="number")
        latest = await self._control.tables.latest()
        await self._control.rollouts.check_free({one.alias for one in {*old.routes} ^ {*latest.routes}})
        owners = await self._control.registry.owners()
        table = validate(_revived(old, latest, owners, self._control.clock.now()))
        await self._control.registry.restore_routes(old.routes, old.autos, replace(act, target=str(old.number)))
        await self._control.tables.publish(table)
        self._control.runtime.wake()
        return answer(_shown(table))

    async def audit(
        self, request: Request, limit: int = 50, since: float = 0, until: float = 0, who: str = "", what: str = ""
    ) -> Response:
        """List administrative acts, newest first: all to operators, those about its own tenant to any other key."""
        caller = await self._control.reader(request)
        of = Selection(since=since, until=until, who=who, what=what)
        return answer({"acts": await self._control.audit.newest(_bounded(limit), tenant=caller.reach, of=of)})

    async def decisions(self, request: Request, limit: int = 50) -> Response:
        """List what the controller decided by itself, newest first, each with its signal and its objective."""
        await self._control.operator(request)
        return answer({"decisions": self._control.decisions.newest(_bounded(limit))})

    async def status(self, request: Request) -> Response:
        """Show this controller at a glance."""
        await self._control.operator(request)
        runtime = self._control.runtime
        latest = await self._control.tables.latest()
        states = Counter(str(one.report.state) for one in await self._control.heartbeats.seen())
        return answer(
            Status(
                leader=runtime.leads,
                ready=runtime.is_ready,
                table=latest.number,
                table_made_at=latest.made_at,
                failed_ticks=runtime.failed_ticks,
                workers=dict(states),
                held=self._control.orders.held,
                certificate_ends_at=self._control.certificate_ends_at(),
                limits_shared=self._control.meters is not None,
                pool=self._pool(),
            )
        )

    def _pool(self) -> PoolShown | None:
        """Show the pool, as of the last tick of the controller that leads."""
        if not self._control.pool_bytes:
            return None
        runtime = self._control.runtime
        return PoolShown(
            limit_bytes=self._control.pool_bytes,
            held_bytes=runtime.held_bytes,
            waited_for=runtime.waited_for,
            unfit=runtime.unfit,
        )

    def _shown(self, one: Seen) -> WorkerShown:
        report = one.report
        return WorkerShown(
            id=report.worker,
            version=report.version,
            state=report.state,
            url=report.url,
            zone=report.zone,
            pid=report.pid,
            load=report.load,
            phases=report.phases,
            detail=report.detail,
            ready_in_s=report.ready_in_s,
            restarts=report.restarts,
            age_s=round(max(0.0, self._control.clock.now() - one.at), 3),
            draining=self._control.orders.wants_drained(report.worker),
        )


def _revived(old: RoutingTable, latest: RoutingTable, owners: Mapping[VersionId, Owners], now: float) -> RoutingTable:
    """Return the old one's routes with what lives now; whose a version is does not go back with them."""
    workers = {version.id: version.workers for version in latest.versions}
    versions = tuple(
        replace(version, workers=workers.get(version.id, ()), tenants=owners.get(version.id))
        for version in old.versions
    )
    return RoutingTable(number=latest.number + 1, made_at=now, routes=old.routes, versions=versions, autos=old.autos)


def _shown(table: RoutingTable) -> TableShown:
    workers = [worker for version in table.versions for worker in version.workers]
    return TableShown(
        number=table.number,
        made_at=table.made_at,
        routes=table.routes,
        workers=len(workers),
        ready=sum(worker.state.serves for worker in workers),
    )


def _bounded(limit: int) -> int:
    return max(1, min(limit, _MAX_LISTED))
