"""The gate: what stands between the gateways and the engine, inside the engine's own HTTP process.

Pure ASGI, outermost, loaded by vLLM's ``--middleware``; so a request makes no extra hop, and what it checks holds
however the request came here. It lets in what carries a valid ticket and can still be in time, counts the load,
tells it with each answer, and sees clients leave. It must import neither vLLM nor torch, and know nothing of models.

Trade-off: it shares the engine's event loop, so its work per request and per chunk must be next to nothing.
"""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum

from starlette.types import ASGIApp, Receive, Scope, Send

from penstock.domain.clock import Clock, SystemClock
from penstock.domain.errors import Unauthenticated
from penstock.domain.ids import VersionId, WorkerId
from penstock.domain.tenant import PLATFORM
from penstock.domain.ticket import HEADER, Ticket, unseal
from penstock.telemetry import names
from penstock.telemetry.metrics import CONTENT_TYPE
from penstock.worker.admission.load import LoadBook, Observed
from penstock.worker.passage import Passage, Tally, Wires

_TICKET = HEADER.encode()
_LOOPBACK = frozenset({"127.0.0.1", "::1", ""})
_MAX_OBSERVED_BYTES = 4096


class Refusal(StrEnum):
    """Why the gate sends a request back: the value of ``x-penstock-refused``."""

    DRAINING = "draining"
    LATE = "late"
    OVERLOADED = "overloaded"
    TICKET = "ticket"

    @property
    def status(self) -> int:
        """Its HTTP status."""
        return 401 if self is Refusal.TICKET else 503


@dataclass(frozen=True, slots=True, kw_only=True)
class GateConfig:
    """What a gate must know; ``ticket_key`` is hex."""

    worker: WorkerId
    version: VersionId
    ticket_key: str
    max_num_seqs: int


_installed: list[GateConfig] = []


def install(config: GateConfig) -> None:
    """Set what the next ``Gate`` of this process works with: vLLM makes it, and passes the app alone."""
    _installed[:] = [config]


class Gate:
    """ASGI middleware in front of one engine."""

    def __init__(self, app: ASGIApp, config: GateConfig | None = None, clock: Clock | None = None) -> None:
        """Wrap the engine's app; without a config, the installed one counts."""
        self._app = app
        self.config = config or _installed[0]
        self.clock = clock or SystemClock()
        self.tally = Tally(self.config.version, LoadBook(self.config.max_num_seqs))
        self.draining = False
        self._key = bytes.fromhex(self.config.ticket_key)
        self._worker = self.config.worker.encode()
        self._refusals = {
            refusal: self.tally.metrics.counter(names.GATE_REFUSALS).labels(self.config.version, refusal)
            for refusal in Refusal
        }
        self._own: dict[str, Callable[[Scope, Receive, Send], Awaitable[None]]] = {
            "/penstock/load": self._load,
            "/penstock/metrics": self._local(self._exposition),
            "/penstock/drain": self._drain,
            "/penstock/observed": self._observed,
            "/metrics": self._local(app),
            "/health": app,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI connection."""
        if scope["type"] != "http":
            await self._not_http(scope, receive, send)
            return
        own = self._own.get(scope["path"])
        if own is not None:
            await own(scope, receive, send)
            return
        ticket = self._check(scope)
        if isinstance(ticket, Refusal):
            await self._refuse(ticket, send)
            return
        passage = Passage(ticket, Wires(receive, send, self.clock.monotonic, self.headers), self.tally)
        try:
            await self._app(scope, passage.receive, passage.send)
        finally:
            passage.close()

    def headers(self) -> tuple[tuple[bytes, bytes], ...]:
        """Return what each answer's head says about this worker."""
        load = self.tally.book.load
        value = f"{load.running},{load.waiting},{load.queued_tokens},{load.kv_used_ratio:.4f}"
        return ((b"x-penstock-load", value.encode()), (b"x-penstock-worker", self._worker))

    def _check(self, scope: Scope) -> Ticket | Refusal:
        sealed = _header(scope, _TICKET)
        now = self.clock.now()
        try:
            ticket = unseal(sealed.decode("ascii"), self._key, now)
        except (Unauthenticated, UnicodeDecodeError):
            return Refusal.TICKET
        if now > ticket.deadline_at:
            return Refusal.LATE
        if self.draining and ticket.tenant != PLATFORM:
            return Refusal.DRAINING
        return ticket

    async def _refuse(self, refusal: Refusal, send: Send) -> None:
        self._refusals[refusal].inc()
        body = {"error": {"message": f"The worker did not take the request: {refusal}.", "code": refusal}}
        headers = (*self.headers(), (b"x-penstock-refused", refusal.encode()))
        await _answer(send, refusal.status, json.dumps(body).encode(), headers=headers)

    async def _not_http(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":  # no ticket, no way in
            await send({"type": "websocket.close", "code": 1008})
            return
        await self._app(scope, receive, send)

    def _local(self, app: ASGIApp) -> ASGIApp:
        """Serve this to the worker's own machine only."""

        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            client = scope.get("client") or ("", 0)
            if client[0] in _LOOPBACK:
                await app(scope, receive, send)
            else:
                await self._refuse(Refusal.TICKET, send)

        return guarded

    async def _load(self, _: Scope, __: Receive, send: Send) -> None:
        await _answer(send, 200, json.dumps(self._load_fields()).encode())

    async def _exposition(self, _: Scope, __: Receive, send: Send) -> None:
        await _answer(send, 200, self.tally.metrics.exposition(), content_type=CONTENT_TYPE.encode())

    async def _drain(self, scope: Scope, _: Receive, send: Send) -> None:
        if not self._is_platform(scope):
            await self._refuse(Refusal.TICKET, send)
            return
        self.draining = True
        await _answer(send, 200, json.dumps(self._state()).encode())

    async def _observed(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take the agent's reading of the engine's metrics, answer with the gate's own state."""
        if not self._is_platform(scope):
            await self._refuse(Refusal.TICKET, send)
            return
        raw = json.loads(await _body(receive))
        self.tally.book.observed = Observed(waiting=int(raw["waiting"]), kv_used_ratio=float(raw["kv_used_ratio"]))
        await _answer(send, 200, json.dumps(self._state()).encode())

    def _is_platform(self, scope: Scope) -> bool:
        ticket = self._check(scope)
        return isinstance(ticket, Ticket) and ticket.tenant == PLATFORM and scope["method"] == "POST"

    def _load_fields(self) -> dict[str, object]:
        load = self.tally.book.load
        return {
            "running": load.running,
            "waiting": load.waiting,
            "queued_tokens": load.queued_tokens,
            "kv_used_ratio": load.kv_used_ratio,
        }

    def _state(self) -> dict[str, object]:
        return {
            "load": self._load_fields(),
            "in_flight": self.tally.book.in_flight,
            "draining": self.draining,
        }


def _header(scope: Scope, name: bytes) -> bytes:
    for key, value in scope["headers"]:
        if key == name:
            found: bytes = value
            return found
    return b""


async def _body(receive: Receive) -> bytes:
    body, more = b"", True
    while more and len(body) <= _MAX_OBSERVED_BYTES:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body


async def _answer(
    send: Send,
    status: int,
    body: bytes,
    *,
    headers: tuple[tuple[bytes, bytes], ...] = (),
    content_type: bytes = b"application/json",
) -> None:
    length = str(len(body)).encode()
    head = [(b"content-type", content_type), (b"content-length", length), *headers]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})
