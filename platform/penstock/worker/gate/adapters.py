"""The agent's requests about an engine's adapters: report the wanted one, load, mark ready or refused.

The agent fetches files and asks golden prompts; loading uses vLLM's API inside this process, unreachable for gateways.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress

from penstock.domain.clock import Clock
from penstock.domain.ids import VersionId
from penstock.telemetry import names
from penstock.telemetry.metrics import Metrics
from penstock.worker.gate.asgi import OK, ASGIApp, Scope, call
from penstock.worker.gate.queueing.adapter_slots import AdapterSlots
from penstock.worker.gate.queueing.admission import AdmissionQueue
from penstock.worker.gate.queueing.constants import LOOK_S

CATALOGUE = (
    names.ADAPTER_LOADS,
    names.ADAPTER_EVICTIONS,
    names.ADAPTER_LOAD_SECONDS,
    names.ADAPTERS_RESIDENT,
    names.ADAPTER_SWAPS,
    names.ADAPTERS_WAITING,
)
READY, REFUSED, GAVE_UP = "ready", "refused", "gave_up"
Order = Callable[[Scope, bytes], Awaitable[tuple[int, dict[str, object]]]]


class AdapterPages:
    def __init__(
        self, queue: AdmissionQueue, slots: AdapterSlots, app: ASGIApp, clock: Clock, version: VersionId
    ) -> None:
        self._queue, self._slots, self._app, self._clock, self._version = queue, slots, app, clock, version
        self._residents = slots.residents
        self._news = asyncio.Event()
        self._metrics, self._swaps_told = Metrics(CATALOGUE), 0
        self._loads = self._metrics.counter(names.ADAPTER_LOADS)
        self._evictions = self._metrics.counter(names.ADAPTER_EVICTIONS).labels(version)
        self._swaps = self._metrics.counter(names.ADAPTER_SWAPS).labels(version)
        self._seconds = self._metrics.histogram(names.ADAPTER_LOAD_SECONDS).labels(version)
        residents = self._residents
        self._metrics.gauge(names.ADAPTERS_RESIDENT).labels(version).set_function(lambda: len(residents.names))
        self._metrics.gauge(names.ADAPTERS_WAITING).labels(version).set_function(lambda: residents.waiting)
        for outcome in (READY, REFUSED, GAVE_UP):
            self._loads.labels(version, outcome)
        self.orders: dict[str, Order] = {
            "/penstock/adapters/wanted": self.wanted,
            "/penstock/adapters/load": self.load,
            "/penstock/adapters/settle": self.settle,
            "/penstock/adapters/pin": self.pin,
        }

    def exposition(self) -> bytes:
        self._swaps.inc(self._slots.swaps - self._swaps_told)
        self._swaps_told = self._slots.swaps
        return self._metrics.exposition()

    def refusal(self, adapter: VersionId) -> tuple[str, float]:
        """Return reason and seconds; empty if the adapter may be served.

        The call also wakes the agent's poll: the queue records the request right after, without an ``await`` in
        between.
        """
        self._news.set()
        now = self._clock.monotonic()
        refused = self._residents.refusal(adapter, now)
        return (refused.why, refused.until - now) if refused is not None else ("", 0.0)

    async def wanted(self, _: Scope, body: bytes) -> tuple[int, dict[str, object]]:
        """Waits up to ``wait_s``; empty without an adapter. There is one agent: its new poll cancels an earlier
        unanswered one.
        """
        until = self._clock.monotonic() + float(json.loads(body)["wait_s"])
        if self._residents.loading is not None:
            self._residents.gave_up(self._residents.loading)
        while (now := self._clock.monotonic()) < until:
            self._news.clear()
            adapter = self._residents.wanted(now)
            if adapter is not None and self._has_room(now):
                self._residents.begin(adapter, now)
                return OK, {"adapter": adapter}
            look_at = now + LOOK_S if adapter is not None else self._residents.look_at(now) or until
            with suppress(TimeoutError):
                async with asyncio.timeout(max(LOOK_S / 10, min(look_at, until) - now)):
                    await self._news.wait()
        return OK, {}

    async def pin(self, _: Scope, body: bytes) -> tuple[int, dict[str, object]]:
        """The queue may request the missing ones; one slot always stays unpinned."""
        named = tuple(VersionId(one) for one in json.loads(body)["adapters"])
        self._residents.pinned = frozenset(named[: self._slots.size - 1])
        self._news.set()
        return OK, {"pinned": sorted(self._residents.pinned)}

    async def load(self, scope: Scope, body: bytes) -> tuple[int, dict[str, object]]:
        raw, now = json.loads(body), self._clock.monotonic()
        adapter = VersionId(raw["adapter"])
        if self._residents.loading != adapter:  # one that its agent brings back unasked
            self._residents.begin(adapter, now)
        if not await self._make_room(scope, now):
            return OK, {"full": True}
        status, said = await self._ask(scope, "load", {"lora_name": adapter, "lora_path": raw["path"]})
        if status == OK:
            self._residents.loaded(adapter, self._clock.monotonic())
        return status, {"full": False, **({} if status == OK else {"error": said})}

    async def settle(self, scope: Scope, body: bytes) -> tuple[int, dict[str, object]]:
        raw, now = json.loads(body), self._clock.monotonic()
        adapter, outcome = VersionId(raw["adapter"]), str(raw["outcome"])
        self._loads.labels(self._version, outcome).inc()
        if outcome == READY:
            self._seconds.observe(self._residents.load_took_s(now))
            self._residents.ready(adapter, now)
            self._queue.look(now)
        else:
            await self._drop(scope, adapter)
            if outcome == REFUSED:
                self._residents.refuse(adapter, str(raw["reason"]), now, float(raw["for_s"]))
                self._queue.turn_away(adapter, now, float(raw["for_s"]))
            self._residents.gave_up(adapter)
        self._news.set()
        return OK, {"resident": self._residents.names}

    def _has_room(self, now: float) -> bool:
        return not self._residents.is_full or self._residents.gives_way(self._slots.busy, now) is not None

    async def _make_room(self, scope: Scope, now: float) -> bool:
        while self._residents.is_full:
            victim = self._residents.gives_way(self._slots.busy, now)
            if victim is None:
                return False
            await self._drop(scope, victim)
            self._evictions.inc()
        return True

    async def _drop(self, scope: Scope, adapter: VersionId) -> None:
        """First from the queue; vLLM keeps its weights until others need the slot."""
        if not self._residents.holds(adapter):
            return
        self._slots.drop(adapter)
        self._residents.dropped(adapter)
        await self._ask(scope, "unload", {"lora_name": adapter})

    async def _ask(self, scope: Scope, what: str, body: dict[str, str]) -> tuple[int, str]:
        path = f"/v1/{what}_lora_adapter"
        own = {**scope, "path": path, "raw_path": path.encode(), "headers": [(b"content-type", b"application/json")]}
        return await call(self._app, own, json.dumps(body).encode())
