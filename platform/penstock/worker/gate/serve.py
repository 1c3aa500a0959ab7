"""The gate: what stands between the gateways and the engine, inside the engine's own HTTP process.

Pure ASGI, outermost, loaded by vLLM's ``--middleware``; so a request makes no extra hop, and what it checks holds
however the request came here. It lets in what carries a valid ticket and can still be in time, counts the load,
reports it with each answer, and notices clients that leave. It must import neither vLLM nor torch, and know nothing of
models.

Trade-off: it shares the engine's event loop, so its work per request and per chunk must be next to nothing.
"""

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict, replace
from enum import StrEnum

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from penstock.domain.clock import Clock, SystemClock
from penstock.domain.errors import Unauthenticated
from penstock.domain.fleet.worker import Load
from penstock.domain.ids import RequestId, VersionId
from penstock.domain.serving.request import Api
from penstock.domain.serving.ticket import HEADER, Presented, Ticket
from penstock.domain.serving.waited import AT_ONCE
from penstock.domain.tenancy.tenant import PLATFORM
from penstock.telemetry import names
from penstock.telemetry.metrics import CONTENT_TYPE
from penstock.worker import gate_config
from penstock.worker.gate import usage
from penstock.worker.gate.adapters import Adapters, ordered
from penstock.worker.gate.admission import doors
from penstock.worker.gate.admission.cost import Work
from penstock.worker.gate.admission.door import Shed
from penstock.worker.gate.admission.fair_queue import in_engine
from penstock.worker.gate.admission.load import LoadBook, Observed
from penstock.worker.gate.in_flight import Connection, InFlight, Tally, replay
from penstock.worker.gate.meters import Meters
from penstock.worker.gate.queue_wait import FOR_GOOD, Headers, QueueWait, Rejection, headers_of
from penstock.worker.gate.resting import REST, SLEEP, WAKE, Resting
from penstock.worker.gate.tickets import TicketCheck
from penstock.worker.gate.work import excess, work_of
from penstock.worker.gate_config import TICKET, GateConfig
from penstock.worker.meter import Meter, are_filled, current
from penstock.worker.share import Share

_TICKET = HEADER.encode()
_LOOPBACK = frozenset({"127.0.0.1", "::1", ""})
_MAX_BODY_BYTES = 64 << 20
"""More than any gateway lets in: a bound for whoever holds a worker's key and is no gateway."""
_SERVED = frozenset(Api)
"""What of the engine can be reached, and by POST only: everything else of it is nobody's business."""


class Refusal(StrEnum):
    """Why the gate sends a request back: the value of ``x-penstock-refused``."""

    DRAINING = "draining"
    SLEEPING = "sleeping"
    LATE = "late"
    OVERLOADED = "overloaded"
    EVICTED = "evicted"
    TICKET = "ticket"
    TOO_LARGE = "too_large"
    PATH = "path"
    ADAPTER = "adapter"

    @property
    def status(self) -> int:
        """Its HTTP status."""
        return _STATUS.get(self, 503)


_STATUS = {Refusal.TICKET: 401, Refusal.TOO_LARGE: 400, Refusal.PATH: 404}
_REFUSED = {
    Shed.FULL: Refusal.OVERLOADED,
    Shed.LATE: Refusal.LATE,
    Shed.EVICTED: Refusal.EVICTED,
    Shed.CLOSING: Refusal.DRAINING,
    Shed.ADAPTER: Refusal.ADAPTER,
}


class Gate:
    """ASGI middleware in front of one engine."""

    def __init__(self, app: ASGIApp, config: GateConfig | None = None, clock: Clock | None = None) -> None:
        self._app = app
        self.config = config or gate_config.installed()
        self.clock = clock or SystemClock()
        self.door = doors.before(self.config)
        self.door.look_later = self._look_later
        self.tally = Tally(self.config.version, LoadBook(self.config.max_num_seqs), self.door)
        self.meters = Meters()
        self._numbers = itertools.count()
        self.draining = False
        self.resting = Resting(app, self._order, self._tell)
        self._tickets = TicketCheck(bytes.fromhex(self.config.ticket_key), self.clock)
        self._worker = self.config.worker.encode()
        self._refusals = {
            refusal: self.tally.metrics.counter(names.GATE_REFUSALS).labels(self.config.version, refusal)
            for refusal in Refusal
        }
        self._own: dict[str, Callable[[Scope, Receive, Send], Awaitable[None]]] = {
            "/penstock/load": self._load,
            "/penstock/metrics": self._local(self._exposition),
            "/penstock/drain": self._drain,
            REST: self.resting.rest,
            **dict.fromkeys((SLEEP, WAKE), self.resting.pass_on),
            "/penstock/observed": self._observed,
            "/penstock/usage": self._usage,
            "/metrics": self._local(app),
            "/health": app,
        }
        self._adapters: Adapters | None = None
        if (slots := self.door.slots) is not None:
            self._adapters = Adapters(self.door, slots, app, self.clock, self.config.version)
            self._own |= {path: ordered(one, self._order, _answer) for path, one in self._adapters.orders.items()}
            self.tally.beside.append(self._adapters.exposition)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI connection."""
        if scope["type"] != "http":
            await self._not_http(scope, receive, send)
            return
        own = self._own.get(scope["path"])
        if own is not None:
            await own(scope, receive, send)
            return
        await self._api(scope, receive, send)

    async def _api(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request to the engine in whose ticket is for exactly this."""
        presented = self._presented(scope)
        if isinstance(presented, Refusal):
            await self._refuse(presented, send)
            return
        with self.resting.inside():
            await self._let_in(presented, scope, receive, send)

    async def _let_in(self, presented: Presented, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] not in _SERVED or scope["method"] != "POST":
            await self._refuse(Refusal.PATH, send)
            return
        try:
            body = await _body(receive)
            ticket = self._tickets.accept(presented, scope["path"], body)
        except Unauthenticated:
            await self._refuse(Refusal.TICKET, send)
            return
        meter = self.meters.open(ticket.request, in_engine(ticket.standing, ticket.weight))
        putting = current.set(meter)
        try:
            await self._serve(ticket, meter, ({**scope, TICKET: ticket}, replay(body, receive), send))
        finally:
            current.reset(putting)
            self.meters.close(ticket.request, meter, self.clock.monotonic())

    async def _serve(self, ticket: Ticket, meter: Meter, asgi: tuple[Scope, Receive, Send]) -> None:
        """Let a valid request wait for a seat, and through. The platform's own probes of the version don't wait."""
        scope, receive, send = asgi
        request = RequestId(f"{ticket.request}/{next(self._numbers)}")
        told, prefill = headers_of(AT_ONCE), None
        no_adapter, again_s = self._without(ticket.adapter)
        if no_adapter:
            await self._refuse(Refusal.ADAPTER, send, Rejection(None, again_s), detail=no_adapter)
            return
        if ticket.tenant != PLATFORM or ticket.adapter:
            work = self._work(ticket, request)
            if too_much := excess(ticket, work, self.door.seats.size):
                await self._refuse(Refusal.TOO_LARGE, send, detail=f"it needs {too_much}")
                return
            wait = QueueWait(self.door, work, receive, self.clock.monotonic)
            rejection = await wait.until_admitted()
            told, meter.waited_s = wait.headers, wait.waited.waited_s
            if rejection is not None:
                await self._reject(rejection, ticket, send, told)
                return
            self.tally.queue_s.observe(meter.waited_s)
            receive = wait.receive
            if work.part < 1.0:
                meter.share = Share(work.sequences)
            prefill = None if are_filled() else self._prefilling(work)
        connection = Connection(scope["path"], receive, send, self.clock.monotonic, lambda: (*self.headers(), *told))
        in_flight = InFlight(ticket, request, connection, self.tally, meter)
        try:
            await self._app(scope, in_flight.receive, in_flight.send)
        finally:
            in_flight.close()
            if prefill is not None:
                prefill.cancel()

    def _without(self, adapter: VersionId) -> tuple[str, float]:
        """Return why this adapter does not answer here, and for how long; empty where it may."""
        if not adapter:
            return "", 0.0
        return self._adapters.refusal(adapter) if self._adapters else ("its engine takes no adapters", 0.0)

    def _prefilling(self, work: Work) -> asyncio.TimerHandle:
        """Let the door go on after a while where nobody counts: nothing shows that a whole answer's prompt is in."""
        door, clock = self.door, self.clock
        return asyncio.get_running_loop().call_later(
            door.prefill.of(work.prompt_tokens), lambda: door.presume_prefilled(work.request, clock.monotonic())
        )

    def _look_later(self, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, lambda: self.door.look(self.clock.monotonic()))

    def _work(self, ticket: Ticket, request: RequestId) -> Work:
        clocks_apart = self.clock.monotonic() - self.clock.now()
        return work_of(ticket, request, self.door.seats.size, clocks_apart=clocks_apart)

    async def _reject(self, rejection: Rejection, ticket: Ticket, send: Send, told: Headers) -> None:
        if rejection.why is not None:
            refusal = _REFUSED[rejection.why]
            reason = rejection.reason or refusal
            self.tally.shed.labels(self.config.version, ticket.standing.name.lower(), reason).inc()
            why, _ = self._without(ticket.adapter)
            await self._refuse(refusal, send, rejection, detail=why, more=told)

    @property
    def load(self) -> Load:
        """What is in the engine and what waits at the door; what waits is counted in tokens of service."""
        inside, queue = self.tally.book.load, self.door.order
        return replace(
            inside,
            waiting=inside.waiting + len(queue),
            queued_tokens=inside.queued_tokens + round(queue.waiting_cost),
            wait_s=queue.waiting_cost / self.door.pace.per_s,
        )

    def headers(self) -> tuple[tuple[bytes, bytes], ...]:
        """Return what each answer's head says about this worker."""
        load = self.load
        value = f"{load.running},{load.waiting},{load.queued_tokens},{load.kv_used_ratio:.4f},{load.wait_s:.3f}"
        return ((b"x-penstock-load", value.encode()), (b"x-penstock-worker", self._worker))

    def _presented(self, scope: Scope) -> Presented | Refusal:
        """Return the ticket by what its header says, or why it is refused before its body is read."""
        try:
            presented = self._tickets.presented(_header(scope, _TICKET))
        except Unauthenticated:
            return Refusal.TICKET
        if self.clock.now() > presented.ticket.deadline_at:
            return Refusal.LATE
        if (self.draining or self.resting.is_on) and presented.ticket.tenant != PLATFORM:
            return Refusal.DRAINING if self.draining else Refusal.SLEEPING
        return presented

    async def _refuse(
        self, refusal: Refusal, send: Send, rejection: Rejection = FOR_GOOD, *, detail: str = "", more: Headers = ()
    ) -> None:
        self._refusals[refusal].inc()
        message = f"The worker did not take the request: {detail or refusal}."
        body = {"error": {"message": message, "code": refusal, **rejection.fields}}
        headers = (*self.headers(), (b"x-penstock-refused", refusal.encode()), *more)
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
        still_s = self.tally.book.still_s(self.clock.monotonic())
        told = {**self._load_fields(), "still_s": still_s, "draining": self.draining}
        await _answer(send, 200, json.dumps(told).encode())

    async def _exposition(self, _: Scope, __: Receive, send: Send) -> None:
        await _answer(send, 200, self.tally.exposition(), content_type=CONTENT_TYPE.encode())

    async def _drain(self, scope: Scope, receive: Receive, send: Send) -> None:
        if await self._order(scope, receive) is None:
            await self._refuse(Refusal.TICKET, send)
            return
        self.draining = True
        self.door.close()
        await self._tell(send, 200)

    async def _observed(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take the agent's reading of the engine's metrics, answer with the gate's own state."""
        body = await self._order(scope, receive)
        if body is None:
            await self._refuse(Refusal.TICKET, send)
            return
        raw = json.loads(body)
        observed = Observed(
            waiting=int(raw["waiting"]),
            kv_used_ratio=float(raw["kv_used_ratio"]),
            kv_blocks=int(raw["kv_blocks"]),
            is_still=bool(raw["still"]),
        )
        self.tally.book.observe(observed, self.clock.monotonic())
        if raw["kv_blocks"]:
            self.door.seats.size = replace(self.door.seats.size, kv_blocks=int(raw["kv_blocks"]))
        await self._tell(send, 200)

    async def _usage(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await self._order(scope, receive)
        if body is None:
            await self._refuse(Refusal.TICKET, send)
            return
        if not are_filled():
            await _answer(send, 404, b"{}")
            return
        try:
            answer = await usage.answer(self.meters, body)
        except msgspec.MsgspecError:
            await _answer(send, 400, b"{}")
            return
        await _answer(send, 200, answer)

    async def _order(self, scope: Scope, receive: Receive) -> bytes | None:
        """Return the body of an order of the platform itself; None where it is not one."""
        presented = self._presented(scope)
        if isinstance(presented, Refusal) or presented.ticket.tenant != PLATFORM or scope["method"] != "POST":
            return None
        try:
            body = await _body(receive)
            self._tickets.accept(presented, scope["path"], body)
        except Unauthenticated:
            return None
        return body

    async def _tell(self, send: Send, status: int) -> None:
        await _answer(send, status, json.dumps(self._state()).encode())

    def _load_fields(self) -> dict[str, object]:
        load = self.load
        return {**asdict(load), "wait_s": round(load.wait_s, 3)}

    def _state(self) -> dict[str, object]:
        return {
            "load": self._load_fields(),
            "in_flight": self.tally.book.in_flight,
            "inside": self.resting.number,
            "draining": self.draining,
        }


def _header(scope: Scope, name: bytes) -> bytes:
    for key, value in scope["headers"]:
        if key == name:
            found: bytes = value
            return found
    return b""


async def _body(receive: Receive) -> bytes:
    """Return the whole body, or raise ``Unauthenticated`` where it is larger than any that a gateway sends."""
    message = await receive()
    body = message.get("body", b"")
    while message.get("more_body", False):
        message = await receive()
        body += message.get("body", b"")
        if len(body) > _MAX_BODY_BYTES:
            raise Unauthenticated("the body is not the one of the internal ticket")
    return bytes(body)


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
