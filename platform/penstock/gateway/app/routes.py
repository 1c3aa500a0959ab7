"""All routes but inference: models, health, the API document. A small FastAPI application off the hot path.

Errors have the APIs' shape everywhere, for unknown paths and methods, too.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route

from penstock import __version__
from penstock.domain.errors import (
    BadRequest,
    Draining,
    Forbidden,
    InvalidField,
    MethodNotAllowed,
    NoCapacity,
    OverLimit,
    PenstockError,
    Unauthenticated,
    UnknownModel,
    UnknownRoute,
)
from penstock.domain.fleet.table import RoutingTable, VersionEntry, by_digest
from penstock.domain.ids import RequestId, VersionId
from penstock.domain.serving.request import JSON_APIS, Api
from penstock.domain.tenancy.tenant import Principal
from penstock.gateway.app import anthropic_models
from penstock.gateway.app.cors import CLOSED, Origins, Preflights
from penstock.gateway.app.docs import add_docs
from penstock.gateway.app.openapi import REQUESTS, document
from penstock.gateway.app.queries import MODELS, Asked
from penstock.gateway.calls.visible import shares_of
from penstock.gateway.deferred.access import Access, Routes
from penstock.gateway.listener.errors import response_of
from penstock.gateway.oip.routes import ROOT, add_oip
from penstock.gateway.openai import head
from penstock.gateway.openai.parse import COUNTS
from penstock.gateway.openai.services import READY_RETRY_S, ErrorObserver, Facts, Identity, unkept
from penstock.gateway.records.making import Early
from penstock.intake.bodies import prove
from penstock.intake.types import App, Message, Receive, Refusal, Scope, Send
from penstock.telemetry.pages import LIVE, READY, REGION

OF_CALLERS = (Unauthenticated, Forbidden, OverLimit)
DEFERRED = ("/v1/files", "/v1/batches", "/v1/jobs", "/v1/webhooks", f"{Api.RESPONSES}/")
"""Routes of deferred work: nobody waits for an answer there, so their faults spend no chat tier's error budget."""
MOST_PATH_CHARS = 64
"""Characters of a refused request's path in its record."""


def application(
    refusals: "Refusals",
    facts: Facts,
    *,
    ids: Callable[[], str],
    origins: Origins = CLOSED,
    deferred: Sequence[Routes] = (),
) -> App:
    identity = refusals.identity
    api = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    _add_models(api, identity, facts)
    _add_requests(api, identity, facts)
    _add_health(api, facts)
    _add_as_vllm(api, facts)
    add_oip(api, lambda request: _caller(request, identity), facts)
    add_docs(api)
    for path in (*JSON_APIS, *COUNTS):  # only other methods come here
        api.add_api_route(path, _only_post, methods=["GET", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "TRACE"])
    for add in deferred:
        add(api, Access(identity))

    described = msgspec.json.encode(document())  # one for all answers, also for those that nobody reads

    @api.get("/openapi.json")
    async def openapi() -> Response:
        return Response(described, media_type="application/json")

    @api.exception_handler(PenstockError)
    async def refused(request: Request, error: PenstockError) -> Response:
        return refusals.answer(request, error)

    @api.exception_handler(HTTPException)
    async def missing(request: Request, error: HTTPException) -> Response:
        refused = _translated(error)
        more = {"allow": _allowed(api, request.scope)} if isinstance(refused, MethodNotAllowed) else {}
        return refusals.answer(request, refused, {**(error.headers or {}), **more})

    @api.exception_handler(RequestValidationError)
    async def invalid(request: Request, _: RequestValidationError) -> Response:
        return refusals.answer(request, InvalidField())

    @api.exception_handler(Exception)
    async def crashed(request: Request, _: Exception) -> Response:
        return refusals.answer(request, PenstockError())

    return _Named(Preflights(Asked(api, refusals.answer), origins, refusals.answer), ids)


async def _only_post() -> Response:
    raise HTTPException(405)


def _allowed(api: FastAPI, scope: Scope) -> str:
    """Return the methods of all routes of a path: each route knows but its own."""
    there = [one for one in api.routes if isinstance(one, Route) and one.matches(scope)[0] is not Match.NONE]
    if any(one.endpoint is _only_post for one in there):
        return "POST"
    return ", ".join(sorted(set().union(*(one.methods or () for one in there))))


def _add_models(api: FastAPI, identity: Identity, facts: Facts) -> None:
    @api.get(MODELS)
    async def models(request: Request) -> Response:
        cards = list(visible(facts.table(), _caller(request, identity)).values())
        if anthropic_models.is_asked(request.headers.raw):
            return _json(
                anthropic_models.page(cards, request.query_params, request.query_params.getlist("lifecycle[]"))
            )
        return _json({"object": "list", "data": cards})

    @api.get(f"{MODELS}/{{model:path}}")
    async def model(model: str, request: Request) -> Response:
        table, name = facts.table(), model.replace("%2F", "/")
        seen, pinned = visible(table, _caller(request, identity)), by_digest(table.versions, name)
        found = seen.get(name) or seen.get(pinned.id if pinned is not None else "")
        if found is None:
            raise UnknownModel(param="model")
        return _json(anthropic_models.info(found) if anthropic_models.is_asked(request.headers.raw) else found)


def _add_requests(api: FastAPI, identity: Identity, facts: Facts) -> None:
    @api.get(f"{REQUESTS}/{{request_id}}")
    async def explained(request_id: str, request: Request) -> Response:
        return _json(await facts.explain(identity.recognise(_credential(request)), request_id))


def _add_health(api: FastAPI, facts: Facts) -> None:
    """Only the private listener's answers name the missing precondition."""

    @api.get(LIVE)
    async def health() -> Response:
        return _json({"status": "ok"})

    @api.get(READY)
    async def ready() -> Response:
        if facts.draining():
            raise Draining(retry_after_s=READY_RETRY_S)
        if facts.missing():
            raise NoCapacity("not ready", retry_after_s=READY_RETRY_S)
        return _json({"status": "ready"})

    @api.get(REGION)
    async def region() -> Response:
        if facts.missing() or not facts.serves():
            raise NoCapacity("not serving", retry_after_s=READY_RETRY_S)
        return _json({"status": "serving"})


def _add_as_vllm(api: FastAPI, facts: Facts) -> None:
    """VLLM's own health routes: a status without a body."""

    async def health() -> Response:
        return Response(status_code=503 if facts.draining() or facts.missing() else 200)

    api.add_api_route("/health", health, methods=["GET"])
    api.add_api_route("/ping", health, methods=["GET", "POST"])

    @api.get("/version")
    async def version() -> Response:
        return _json({"version": __version__})


def _caller(request: Request, identity: Identity) -> Principal:
    who = identity.authenticate(_credential(request))
    prove(request.scope)
    return who


def _credential(request: Request) -> str:
    head.check_single(request.headers.raw)
    return head.credential({name.lower(): value for name, value in request.headers.raw})


def visible(table: RoutingTable, who: Principal) -> dict[str, dict[str, object]]:
    made = int(table.made_at)
    versions: dict[str, VersionEntry] = {version.id: version for version in table.versions}
    ready = {
        one.id: sum([worker.state.serves for worker in one.workers]) for one in table.versions if not one.base
    }  # an adapter's are its base's: counted once for all of them
    seen: dict[str, dict[str, object]] = {}
    pinned = [one.id for one in table.versions if who.may_use(one.id) and who.sees(one.tenants)]
    for route in table.routes:
        if who.may_use(route.alias) and (shares := shares_of(route, versions, who)):
            main = max(shares, key=lambda share: share.weight).version
            seen[route.alias] = _card(route.alias, versions[main], who, ready, made)
    cards = seen | {version: _card(version, versions[version], who, ready, made) for version in pinned}
    return cards | _by_rules(table, who, cards)


def _by_rules(
    table: RoutingTable, who: Principal, cards: Mapping[str, dict[str, object]]
) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = {}
    contexts = {str(version.id): version.max_model_len for version in table.versions}
    for auto in table.autos:
        led = {rule.name: cards[rule.to] for rule in auto.rules if rule.to in cards and who.may_use(rule.to)}
        if led and who.may_use(auto.alias):
            longest = max(contexts[str(card["version"])] for card in led.values())
            last = {**list(led.values())[-1], "id": auto.alias}
            found[auto.alias] = {**last, "max_model_len": who.context(longest), "rules": list(led)}
    return found


def _card(
    name: str, version: VersionEntry, who: Principal, ready: Mapping[VersionId, int], made: int
) -> dict[str, object]:
    return {
        "id": name,
        "object": "model",
        "created": made,
        "owned_by": "penstock",
        "training_use": "yes" if who.plan.training_use else "no",
        "version": version.id,
        "task": version.task,
        "max_model_len": who.context(version.max_model_len),
        "ready_workers": ready.get(version.base or version.id, 0),
    }


def _json(value: object) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")


def _translated(error: HTTPException) -> PenstockError:
    if error.status_code == 404:  # noqa: PLR2004
        return UnknownRoute("There is nothing at this path; /docs shows what is served here.")
    if error.status_code == 405:  # noqa: PLR2004
        return MethodNotAllowed()
    return BadRequest()


@dataclass(frozen=True, slots=True)
class Refusals:
    """Counts, logs and records refusals with the caller's identity and limits."""

    identity: Identity
    observer: ErrorObserver
    keep: Callable[[PenstockError, Early], None] = unkept

    def answer(self, request: Request, error: PenstockError, more: dict[str, str] | None = None) -> Response:
        request_id = RequestId(request.scope["state"]["request_id"])
        claim = head.claim({name.lower(): value for name, value in request.headers.raw}, self.identity.claimed)
        charged = None if request.url.path.startswith(DEFERRED) else Api.CHAT
        self.observer.refused(error, request_id, claim, api=charged)
        if isinstance(error, OF_CALLERS):
            self.keep(error, Early(request_id, claim, request.url.path[:MOST_PATH_CHARS]))
        api = Api.MESSAGES if anthropic_models.is_asked(request.headers.raw) else _spoken(request.url.path)
        status, headers, body = response_of(error, request_id, api)
        told = {name.decode(): value.decode() for name, value in headers} | (more or {})
        return Response(body, status, headers=told)


def _spoken(path: str) -> Api | None:
    if path == ROOT or path.startswith(f"{ROOT}/"):
        return Api.INFER
    return Api.MESSAGES if path == Api.MESSAGES or path.startswith(f"{Api.MESSAGES}/") else None


class _Named:
    def __init__(self, app: App, ids: Callable[[], str]) -> None:
        self._app, self._ids = app, ids

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = dict(scope["headers"])
        request_id = RequestId(head.request_id(given, self._ids()))
        scope["state"] = {**scope.get("state", {}), "request_id": request_id}
        names = [b"x-request-id"]
        if head.ANTHROPIC_VERSION in given or _spoken(scope["path"]) is Api.MESSAGES:
            names.append(head.ANTHROPIC_ID)

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                named = [(name, request_id.encode()) for name in names]
                message = {**message, "headers": [*message["headers"], *named]}
            await send(message)

        await self._app(scope, receive, send_with_id)


def crashed(observer: ErrorObserver, error: Exception, scope: Scope) -> Refusal:
    request_id = RequestId(scope.get("state", {}).get("request_id", ""))
    cause = error.__cause__  # what came after an answer had begun: Starlette raises an error of its own from it
    observer.crashed(cause if isinstance(cause, PenstockError) else error, request_id)
    status, headers, body = response_of(PenstockError(), request_id, _spoken(scope["path"]))
    return status, [*headers, (b"x-request-id", request_id.encode())], body
