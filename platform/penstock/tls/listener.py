"""A listener that lets in whom it may: the role of a caller is looked at once, when its connection is made.

A wrong role is told in HTTP, since the handshake has no words for it, and in the log with the address that it came
from. What a connection carries afterwards costs nothing here.
"""

import asyncio
import json
import ssl
from typing import Any, Protocol, cast

from penstock.telemetry import logs
from penstock.tls.handshake import peer_of, stranger
from penstock.tls.identity import Callers
from penstock.tls.mutual import Mutual

LOOPBACK = ("127.0.0.1", "::1")
PATIENCE_S = 5.0
"""How long a refused connection may take to ask, and so to be told."""


class ServerConfig(Protocol):
    """What is set of an HTTP server's configuration once it is loaded: uvicorn's."""

    ssl: ssl.SSLContext | None
    http_protocol_class: type[asyncio.Protocol]


def guard(config: ServerConfig, mutual: Mutual, callers: Callers) -> None:
    """Let a server listen with this certificate, for these callers alone."""
    config.ssl = mutual.server()
    config.http_protocol_class = _admitting(config.http_protocol_class, mutual, callers)


def refusal(transport: asyncio.BaseTransport, mutual: Mutual, callers: Callers) -> str:
    """Say why who is at the other end may not come in; empty where it may."""
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

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            if why := refusal(transport, mutual, callers):
                _turn_away(cast("asyncio.Transport", transport), why)
            else:
                super().connection_made(transport)

    return Admitting


def _turn_away(transport: asyncio.Transport, why: str) -> None:
    peer: Any = transport.get_extra_info("peername")
    logs.logger().warning("peer_refused", reason=why, address=str(peer[0]) if peer else "")
    transport.set_protocol(_TurnedAway(transport, why))


class _TurnedAway(asyncio.Protocol):
    """Answers whatever is asked with a refusal, and closes."""

    def __init__(self, transport: asyncio.Transport, why: str) -> None:
        self._transport, self._why = transport, why
        self._timer = asyncio.get_running_loop().call_later(PATIENCE_S, transport.abort)

    def data_received(self, data: bytes) -> None:
        del data
        error = {"message": f"This certificate has no business here: {self._why}.", "code": "wrong_role"}
        body = json.dumps({"error": error}).encode()
        head = f"HTTP/1.1 403 Forbidden\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
        self._transport.write(f"{head}connection: close\r\n\r\n".encode() + body)
        self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._timer.cancel()
