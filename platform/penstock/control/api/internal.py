"""Workers report here; the answer says whether to go on, to sleep, or to go."""

from dataclasses import replace
from typing import NotRequired, TypedDict

from fastapi import APIRouter, Request, Response

from penstock.control.api.deps import Control
from penstock.control.api.wire import answer, body, decode
from penstock.domain.errors import Forbidden
from penstock.domain.fleet.worker import WorkerOrder, WorkerReport
from penstock.domain.ids import VersionId

_NUL = b"\\u0000"
"""The engine's last words may hold one, and the database holds none."""


class Desired(TypedDict):
    """What a worker should do."""

    desired: WorkerOrder
    pinned: NotRequired[tuple[VersionId, ...]]
    """Adapters that it is to load first and hold for good; left out where it is not known, as on standby."""


class Internal:
    """``/internal``: for processes of the platform, with the workers' credential."""

    def __init__(self, control: Control) -> None:
        self._control = control

    def router(self) -> APIRouter:
        """Return its routes."""
        router = APIRouter(prefix="/internal", tags=["internal"])
        router.add_api_route("/workers/heartbeat", self.heartbeat, methods=["POST"])
        router.add_api_route("/versions/{version}", self.version, methods=["GET"])
        return router

    async def version(self, request: Request, version: VersionId) -> Response:
        """Show a worker the version that it is ordered to serve, or an adapter of it: its full digest above all."""
        _, served = self._control.worker(request)
        if not await self._control.registry.may_ask(served, version):
            raise Forbidden("a worker asks for the version that it was started for, or for adapters of that one")
        return answer(await self._control.registry.version(version))

    async def heartbeat(self, request: Request) -> Response:
        """Take a worker's report: memory only, so it is answered at once with the database away, too."""
        who = self._control.worker(request)
        raw = await body(request)
        report = decode(raw.replace(_NUL, b" "), WorkerReport)
        if (report.worker, report.version) != who:
            raise Forbidden("a worker reports for itself alone, and for the version that it was started for")
        url = self._control.addresses.reached_at(report.url, request.client.host if request.client else "")
        self._control.heartbeats.take(replace(report, url=url))
        orders = self._control.orders
        told, pinned = Desired(desired=orders.desired(report.worker, report.state)), orders.pinned(report.version)
        return answer(told if pinned is None else {**told, "pinned": pinned})
