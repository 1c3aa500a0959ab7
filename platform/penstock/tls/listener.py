"""Guards a TLS listener by role: once per connection, and per request if routes differ in the roles they admit.

A refusal is an HTTP answer, since a handshake can't explain it, and a log line with the caller's address.
"""

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Protocol, cast

from penstock.tls.handshake import Refusals, peer_of, stranger
from penstock.tls.identity import Callers
from penstock.tls.mutual import Mutual

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
LOOPBACK = ("127.0.0.1", "::1")
PATIENCE_S = 5.0
"""Seconds in which a refused connection may send a request, and so get the reason."""


class ServerConfig(Protocol):
    """The parts of uvicorn's configuration that this module sets after loading."""

    ssl: ssl.SSLContext | None
    http_protocol_class: type[asyncio.Protocol]


def guard(config: ServerConfig, mutual: Mutual, callers: Callers) -> None:
    config.ssl = mutual.server()
    config.http_protocol_class = _admitting(config.http_protocol_class, mutual, callers)


def refusal(transport: asyncio.BaseTransport, mutual: Mutual, callers: Callers) -> str:
    """Why the peer may not connect; empty if it may."""
    certificate = transport.get_extra_info("peercert") or {}
    if why := stranger(certificate, mutual.identity.trust_domain):
        return why
    caller, here, there = (peer_of(certificate), *map(transport.get_extra_info, ("sockname", "peername")))
    from_here = bool(here and there and there[0] in (here[0], *LOOPBACK))
    if callers.admit(caller.role, from_here=from_here):
        return ""
    return f"{caller} may not call a {mutual.identity.role} here; {', '.join(sorted(callers.roles))} may"


def _admitting(protocol: type[asyncio.Protocol], mutual: Mutual, callers: Callers) -> type[asyncio.Protocol]:
    class Admitting(protocol):  # type: ignore[valid-type, misc]  # a server's own protocol, whichever it is
        __slots__ = ()
        app: App

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            if why := refusal(transport, mutual, callers):
                _turn_away(cast("asyncio.Transport", transport), why, mutual.refusals)
            else:
                super().connection_made(transport)
                if callers.by_path:
                    self.app = _by_path(self.app, transport, mutual, callers)

    return Admitting


def _by_path(app: App, transport: asyncio.BaseTransport, mutual: Mutual, callers: Callers) -> App:
    caller = peer_of(transport.get_extra_info("peercert") or {})

    async def asked(scope: Scope, receive: Receive, send: Send) -> None:
        if callers.may_ask(caller.role, scope["path"]):
            await app(scope, receive, send)
            return
        why = f"{caller} may not ask a {mutual.identity.role} for this"
        mutual.refusals.tell(why, str((scope.get("client") or [""])[0]))
        body = _told(why)
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 403, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return asked


def _told(why: str) -> bytes:
    error = {"message": f"This certificate may not call this service: {why}.", "code": "wrong_role"}
    return json.dumps({"error": error}).encode()


def _turn_away(transport: asyncio.Transport, why: str, refusals: Refusals) -> None:
    peer: Any = transport.get_extra_info("peername")
    refusals.tell(why, str(peer[0]) if peer else "")
    transport.set_protocol(_TurnedAway(transport, why))


class _TurnedAway(asyncio.Protocol):
    def __init__(self, transport: asyncio.Transport, why: str) -> None:
        self._transport, self._why = transport, why
        self._timer = asyncio.get_running_loop().call_later(PATIENCE_S, transport.abort)

    def data_received(self, data: bytes) -> None:
        del data
        body = _told(self._why)
        head = f"HTTP/1.1 403 Forbidden\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
        self._transport.write(f"{head}connection: close\r\n\r\n".encode() + body)
        self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._timer.cancel()
