"""The gate's own pages: load, metrics, the platform's orders and queries.

Orders (drain, rest, sleep, usage, adapters …) need the platform's ticket; metrics are for this machine only.
"""

import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from http import HTTPStatus

import msgspec

from penstock.domain.clock import Clock
from penstock.domain.models.steps import StepModel
from penstock.telemetry.metrics import CONTENT_TYPE
from penstock.worker.engines import step_log
from penstock.worker.gate.adapters import AdapterPages
from penstock.worker.gate.asgi import OK, ASGIApp, Receive, Scope, Send, answer, call
from penstock.worker.gate.entry import Entry
from penstock.worker.gate.load import Observed
from penstock.worker.gate.meters import Meters, usage
from penstock.worker.gate.queueing.forecast import Forecast
from penstock.worker.gate.refusals import GateRefusal, RefusalAnswers, Refused
from penstock.worker.gate.tally import Tally
from penstock.worker.meter import are_filled

_LOOPBACK = frozenset({"127.0.0.1", "::1", ""})
SLEEP, WAKE, STEPS = "/penstock/sleep", "/penstock/wake", "/penstock/steps"
_OF_ENGINE = {SLEEP: ("/sleep", b"level=1"), WAKE: ("/wake_up", b"")}
"""vLLM's endpoints: level 1 keeps the weights in the host's memory, so a wake reads no file."""

Answer = tuple[int, bytes]
Order = Callable[[Scope, bytes], Awaitable[Answer]]


class _Rest(msgspec.Struct):
    rest: bool


class _StepOrder(msgspec.Struct):
    forget: bool = False
    """Whether the log begins anew."""
    learned: StepModel | None = None
    """The model that the gate predicts with from now on."""


class _Observed(msgspec.Struct):
    """An agent of another release may send fewer or more fields."""

    waiting: int = 0
    kv_used_ratio: float = 0.0
    kv_blocks: int = 0
    still: bool = False
    batch_slots: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    engine: ASGIApp
    entry: Entry
    tally: Tally
    meters: Meters
    refusals: RefusalAnswers
    clock: Clock
    adapters: AdapterPages | None

    def by_path(self) -> dict[str, ASGIApp]:
        orders: dict[str, Order] = {
            "/penstock/drain": self._drain,
            "/penstock/rest": self._rest,
            SLEEP: self._sleep_or_wake,
            WAKE: self._sleep_or_wake,
            "/penstock/observed": self._observed,
            "/penstock/usage": self._usage,
            STEPS: partial(_steps, self.tally.queue.forecast),
        }
        if self.adapters is not None:
            orders |= {path: _as_json(order) for path, order in self.adapters.orders.items()}
        return {
            "/penstock/load": self._load,
            "/penstock/metrics": self._local(self._metrics),
            "/metrics": self._local(self.engine),
            "/health": self.engine,
            **{path: self._ordered(order) for path, order in orders.items()},
        }

    def _ordered(self, order: Order) -> ASGIApp:
        async def page(scope: Scope, receive: Receive, send: Send) -> None:
            try:
                status, said = await order(scope, await self.entry.order(scope, receive))
            except Refused as refused:
                await self.refusals.answer(refused, send)
                return
            except msgspec.MsgspecError:  # an order of another release
                status, said = HTTPStatus.BAD_REQUEST, b"{}"
            await answer(send, status, said)

        return page

    def _local(self, app: ASGIApp) -> ASGIApp:
        async def page(scope: Scope, receive: Receive, send: Send) -> None:
            if (scope.get("client") or ("", 0))[0] in _LOOPBACK:
                await app(scope, receive, send)
            else:
                await self.refusals.answer(Refused(GateRefusal.TICKET), send)

        return page

    async def _load(self, _: Scope, __: Receive, send: Send) -> None:
        still_s = self.tally.book.still_s(self.clock.monotonic())
        said = {**self._load_fields(), "still_s": still_s, "draining": self.entry.is_draining}
        await answer(send, OK, json.dumps(said).encode())

    async def _metrics(self, _: Scope, __: Receive, send: Send) -> None:
        await answer(send, OK, self.tally.exposition(), kind=CONTENT_TYPE)

    async def _drain(self, _: Scope, __: bytes) -> Answer:
        self.entry.is_draining = True
        self.tally.queue.close()
        return self._state()

    async def _rest(self, _: Scope, body: bytes) -> Answer:
        self.entry.is_resting = msgspec.json.decode(body, type=_Rest).rest
        return self._state()

    async def _sleep_or_wake(self, scope: Scope, _: bytes) -> Answer:
        if not self.entry.is_resting:
            return self._state(HTTPStatus.CONFLICT)
        path, query = _OF_ENGINE[scope["path"]]
        own = {**scope, "path": path, "raw_path": path.encode(), "query_string": query}
        status, _said = await call(self.engine, own)
        return self._state(status)

    async def _observed(self, _: Scope, body: bytes) -> Answer:
        raw, slots = msgspec.json.decode(body, type=_Observed), self.tally.queue.slots
        observed = Observed(
            waiting=raw.waiting, kv_used_ratio=raw.kv_used_ratio, kv_blocks=raw.kv_blocks, is_still=raw.still
        )
        self.tally.book.observe(observed, self.clock.monotonic())
        self.tally.queue.yielding.told = raw.batch_slots
        if observed.kv_blocks:
            slots.size = replace(slots.size, kv_blocks=observed.kv_blocks)
        return self._state()

    async def _usage(self, _: Scope, body: bytes) -> Answer:
        if not are_filled():
            return HTTPStatus.NOT_FOUND, b"{}"
        return OK, await usage(self.meters, body)

    def _state(self, status: int = OK) -> Answer:
        state = {
            "load": self._load_fields(),
            "in_flight": self.tally.book.in_flight,
            "inside": self.entry.inside,
            "draining": self.entry.is_draining,
        }
        return status, json.dumps(state).encode()

    def _load_fields(self) -> dict[str, object]:
        load = self.tally.load
        return {**asdict(load), "wait_s": round(load.wait_s, 3)}


def _as_json(order: Callable[[Scope, bytes], Awaitable[tuple[int, dict[str, object]]]]) -> Order:
    async def page(scope: Scope, body: bytes) -> Answer:
        status, said = await order(scope, body)
        return status, json.dumps(said).encode()

    return page


async def _steps(forecast: Forecast, scope: Scope, body: bytes) -> tuple[int, bytes]:
    asked = msgspec.json.decode(body, type=_StepOrder)
    if asked.learned is not None:
        forecast.learn(asked.learned)
    told = await step_log.ask(scope.get("app"), forget=asked.forget)
    return (HTTPStatus.NOT_FOUND, b"{}") if told is None else (OK, json.dumps(told).encode())
