"""The controller's HTTP application, put together."""

from copy import copy
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import State
from starlette.exceptions import HTTPException
from starlette.routing import Route

from penstock.control.api import (
    aliases,
    autos,
    batch_work,
    bounds,
    dead_letters,
    fleet,
    internal,
    keys,
    models,
    money,
    privacy,
    rollouts,
    safety,
    scale,
    tenants,
)
from penstock.control.api.deps import Control, Controlled
from penstock.control.api.errors import REFUSALS, ErrorAnswer, fields_of, status_of
from penstock.control.api.refusals import UNKNOWN, Refused
from penstock.control.api.wire import MAX_BODY_BYTES, JsonRoute, refusal_of
from penstock.domain.errors import Forbidden, MethodNotAllowed, PenstockError, Unauthenticated, UnknownRoute
from penstock.domain.tenancy.audit import NO_TENANT
from penstock.domain.tenancy.tenant import ApiKey
from penstock.intake.bodies import BodyBound, Bounded
from penstock.intake.held import Intake
from penstock.intake.limits import Limits
from penstock.intake.types import Refusal, Scope
from penstock.telemetry.logs import logger
from penstock.telemetry.pages import LIVE, READY

ADMIN = "/admin/v1"
_ROUTERS = (
    models.router,
    aliases.router,
    autos.router,
    rollouts.router,
    tenants.orgs,
    tenants.router,
    keys.router,
    money.router,
    fleet.router,
    scale.router,
    batch_work.router,
    dead_letters.router,
    privacy.router,
    safety.router,
)
health = APIRouter(tags=["health"], route_class=JsonRoute)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alive:
    """This process lives."""

    status: str = "ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """Whether this controller leads and its ticks succeed, or stands by."""

    ready: bool
    leader: bool


def make_app(control: Control) -> FastAPI:
    app = copy(_application())
    app.state = State({"control": control})
    return app


@cache
def _application() -> FastAPI:
    app = FastAPI(title="Penstock controller", docs_url=None, redoc_url=None, redirect_slashes=False)
    for router in _ROUTERS:
        app.include_router(router, prefix=ADMIN, responses=REFUSALS)
    app.include_router(internal.router, responses=REFUSALS)
    app.include_router(health)
    document = app.openapi
    app.openapi = lambda: _bounded(document())  # type: ignore[method-assign]  # as FastAPI's manual has it
    app.add_exception_handler(PenstockError, _refuse)
    app.add_exception_handler(Unauthenticated, _refuse_authority)
    app.add_exception_handler(Forbidden, _refuse_authority)
    app.add_exception_handler(HTTPException, _refuse_route)
    app.add_exception_handler(RequestValidationError, _refuse_field)
    app.add_exception_handler(Exception, _refuse)
    return app


def bounded(control: Control, limits: Limits, intake: Intake) -> Bounded:
    body = BodyBound(most_bytes=MAX_BODY_BYTES)
    return Bounded(app=make_app(control), limits=limits, body=body, intake=intake, crashed=_crashed)


def _bounded(document: dict[str, Any]) -> dict[str, Any]:
    bounds.write_into(document)
    return document


@health.get(LIVE)
async def healthz() -> Alive:
    return Alive()


@health.get(READY, responses={503: {"model": Readiness}})
async def readyz(control: Controlled, response: Response) -> Readiness:
    is_ready = control.runtime.is_ready
    response.status_code = 200 if is_ready else 503
    return Readiness(ready=is_ready, leader=control.runtime.leads)


def refusal(error: PenstockError, _: object = None) -> Refusal:
    """Return the HTTP answer for an error; its second argument is the listener's request id."""
    body = msgspec.json.encode(ErrorAnswer(error=fields_of(error)))
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    return status_of(error), headers, body


async def _refuse_authority(request: Request, error: Exception) -> Response:
    """Refuse, with a row in the audit log if it was an operators' route."""
    route = request.scope.get("route")
    path = getattr(route, "path", "")
    if path.startswith(ADMIN) and isinstance(error, PenstockError):
        key: ApiKey | None = getattr(request.state, "caller", None)
        who, tenant = (key.id, key.tenant) if key else (UNKNOWN, NO_TENANT)
        await request.app.state.control.refused(Refused(who, f"{request.method} {path}", error.code, tenant))
    return await _refuse(request, error)


async def _refuse(_: Request, error: Exception) -> Response:
    status, headers, body = refusal(error if isinstance(error, PenstockError) else PenstockError())
    return Response(body, status, headers={name.decode(): value.decode() for name, value in headers})


async def _refuse_route(request: Request, error: Exception) -> Response:
    is_method = isinstance(error, HTTPException) and error.status_code == 405  # noqa: PLR2004
    answer = await _refuse(request, MethodNotAllowed() if is_method else UnknownRoute())
    if is_method:  # a route knows its own methods alone
        there = [one for one in request.app.routes if isinstance(one, Route) and one.matches(request.scope)[0].value]
        answer.headers["allow"] = ", ".join(sorted(set().union(*(one.methods or () for one in there))))
    return answer


async def _refuse_field(request: Request, error: Exception) -> Response:
    known = refusal_of(error) if isinstance(error, RequestValidationError) else PenstockError()
    return await _refuse(request, known)


def _crashed(error: Exception, scope: Scope) -> Refusal:
    logger().error("admin_call_failed", path=scope["path"], error_type=type(error).__name__)
    return refusal(PenstockError())
