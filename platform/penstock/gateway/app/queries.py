"""Refuses query parameters that a path does not read: a misspelt one would be ignored silently."""

from collections.abc import Callable, Iterator
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import Response

from penstock.domain.errors import BadRequest, InvalidField, PenstockError, UnsupportedField
from penstock.domain.serving.request import Api
from penstock.gateway.app import anthropic_models
from penstock.gateway.deferred import access
from penstock.gateway.openai import head
from penstock.gateway.openai.parse import COUNTS
from penstock.intake.types import App, Receive, Scope, Send

GET = "GET"
MODELS = "/v1/models"
BETA = "beta"
LIFECYCLE = "lifecycle[]"
REPEATED = frozenset({LIFECYCLE, "include[]"})
PAGES = frozenset({"limit", "after_id", "before_id", LIFECYCLE})
_MESSAGES = frozenset({str(Api.MESSAGES), *(path for path, api in COUNTS.items() if api is Api.MESSAGES)})


def fault(scope: Scope) -> BadRequest | None:
    if not scope.get("query_string"):
        return None
    is_anthropics = anthropic_models.is_asked(scope["headers"])
    known, seen = known_at(scope["path"], is_anthropics=is_anthropics, method=scope["method"]), set[str]()
    for name in _names(scope["query_string"]):
        if name not in known:
            return UnsupportedField("it is no query parameter of this path: leave it out", param=name)
        if name in seen and name not in REPEATED:
            return InvalidField("the query parameter is given twice: give it once", param=name)
        seen.add(name)
    return None


def known_at(path: str, *, is_anthropics: bool, method: str = GET) -> frozenset[str]:
    if path in _MESSAGES:
        return frozenset({BETA})
    if is_anthropics and path == MODELS:
        return PAGES | {BETA}
    if is_anthropics and path.startswith(f"{MODELS}/"):
        return frozenset({BETA})
    return access.known_at(path) if method == GET else frozenset()


def _names(query: bytes) -> Iterator[str]:
    return (name for name, _ in parse_qsl(query.decode("latin-1"), keep_blank_values=True))


class Asked:
    def __init__(self, app: App, refused: Callable[[Request, PenstockError], Response]) -> None:
        self._app, self._refused = app, refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        error = fault(scope)
        if error is None:
            try:
                head.later_version(dict(scope["headers"]))
            except InvalidField as unknown:
                error = unknown
        answer = self._app if error is None else self._refused(Request(scope), error)
        await answer(scope, receive, send)
