"""Cross-origin requests (CORS, the Fetch standard): the origins of pages that may use this gateway from a browser.

Off by default. Keys are sent in headers and never in cookies, so no answer allows credentials.

Trade-off: a page with access holds a key that its visitor can copy; so only the operator lists origins.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from penstock.domain.errors import OriginRefused, PenstockError
from penstock.intake.types import App, Headers, Message, Receive, Scope, Send

ANY = "*"
MAX_AGE_S = 7_200
"""Seconds for which a browser may keep an answered preflight: Chromium's own upper bound."""
_PREFLIGHT = b"access-control-request-method"
_MAY_READ: Headers = [(b"access-control-expose-headers", b"*")]
_MAY_SEND: Headers = [
    (b"access-control-allow-methods", b"GET, POST, DELETE"),
    (b"access-control-allow-headers", b"authorization, *"),  # the star does not cover the first
    (b"access-control-max-age", b"%d" % MAX_AGE_S),
]
_BY_ORIGIN: Headers = [(b"vary", b"origin")]


@dataclass(frozen=True, slots=True)
class Origins:
    """Origins in lower case, as browsers send them; ``*`` allows any."""

    allowed: frozenset[str] = frozenset()

    def told(self, headers: Headers) -> Headers:
        found = self._allowing(headers)
        return found + _MAY_READ if found else self._varying()

    def preflight(self, headers: Headers) -> Headers:
        if not self._allowing(headers):
            raise OriginRefused
        return _MAY_SEND

    def _allowing(self, headers: Headers) -> Headers:
        origin = _value(headers, b"origin")
        if not origin or not self.allowed:
            return []
        if ANY in self.allowed:
            return [(b"access-control-allow-origin", ANY.encode())]
        if origin.decode("latin-1").lower() not in self.allowed:
            return []
        return [(b"access-control-allow-origin", origin), *_BY_ORIGIN]

    def _varying(self) -> Headers:
        return _BY_ORIGIN if self.allowed - {ANY} else []


CLOSED = Origins()


def adding(send: Send, more: Headers) -> Send:
    async def send_with(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *more]}
        await send(message)

    return send_with


class Preflights:
    def __init__(self, app: App, origins: Origins, refused: Callable[[Request, PenstockError], Response]) -> None:
        self._app, self._origins, self._refused = app, origins, refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "OPTIONS" or not _value(scope["headers"], _PREFLIGHT):
            await self._app(scope, receive, send)
            return
        try:
            answer = Response(status_code=204)
            answer.raw_headers.extend(self._origins.preflight(scope["headers"]))
        except OriginRefused as error:
            answer = self._refused(Request(scope), error)
        await answer(scope, receive, send)


def _value(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> bytes:
    return next((value for key, value in headers if key == name), b"")
