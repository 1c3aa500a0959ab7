"""The controller's HTTP application, put together."""

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from penstock.control.api.autos import Autos
from penstock.control.api.comparisons import Compared
from penstock.control.api.deps import Control
from penstock.control.api.errors import fields_of, status_of
from penstock.control.api.fleet import FleetAndTable
from penstock.control.api.internal import Internal
from penstock.control.api.keys import Keys
from penstock.control.api.models import Models
from penstock.control.api.money import Money
from penstock.control.api.orgs import Orgs
from penstock.control.api.rollouts import RolloutsShown
from penstock.control.api.tenants import Tenants
from penstock.control.api.wire import answer
from penstock.domain.errors import InvalidField, MethodNotAllowed, PenstockError, UnknownRoute
from penstock.telemetry.logs import logger
from penstock.telemetry.pages import LIVE, READY

ADMIN = "/admin/v1"


def make_app(control: Control) -> FastAPI:
    """Return the application."""
    app = FastAPI(title="Penstock controller", docs_url=None, redoc_url=None)
    admin = APIRouter(prefix=ADMIN)
    rooms = (Models, Autos, Compared, RolloutsShown, Orgs, Tenants, Keys, Money, FleetAndTable)
    for part in [room(control) for room in rooms]:
        admin.include_router(part.router())
    app.include_router(admin)
    app.include_router(Internal(control).router())
    app.include_router(_health(control))
    app.add_exception_handler(PenstockError, _refuse)
    app.add_exception_handler(HTTPException, _refuse_route)
    app.add_exception_handler(RequestValidationError, _refuse_parameter)
    app.add_exception_handler(Exception, _refuse_unexpected)
    return app


def _health(control: Control) -> APIRouter:
    router = APIRouter(tags=["health"])

    async def healthz() -> Response:
        """Answer that this process lives."""
        return answer({"status": "ok"})

    async def readyz() -> Response:
        """Answer whether it leads and its ticks succeed, or stands by."""
        is_ready = control.runtime.is_ready
        return answer({"ready": is_ready, "leader": control.runtime.leads}, 200 if is_ready else 503)

    router.add_api_route(LIVE, healthz, methods=["GET"])
    router.add_api_route(READY, readyz, methods=["GET"])
    return router


async def _refuse(_: Request, error: Exception) -> Response:
    known = error if isinstance(error, PenstockError) else PenstockError()
    return answer({"error": fields_of(known)}, status_of(known))


async def _refuse_route(request: Request, error: Exception) -> Response:
    is_method = isinstance(error, HTTPException) and error.status_code == 405  # noqa: PLR2004
    return await _refuse(request, MethodNotAllowed() if is_method else UnknownRoute())


async def _refuse_parameter(request: Request, error: Exception) -> Response:
    first = error.errors()[0] if isinstance(error, RequestValidationError) else {"loc": ("",), "msg": ""}
    return await _refuse(request, InvalidField(str(first["msg"]), param=str(first["loc"][-1])))


async def _refuse_unexpected(request: Request, error: Exception) -> Response:
    logger().error("admin_call_failed", path=request.url.path, error_type=type(error).__name__)
    return await _refuse(request, PenstockError())
