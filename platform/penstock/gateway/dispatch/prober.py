"""Sends the breakers' probes to workers, through the same gate as all requests.

A probe waits behind a full engine like any request. So meanwhile the gate is asked how long its engine has made no
progress: a hung engine is found, and a full one is not ejected.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from penstock.domain.clock import Clock
from penstock.domain.ids import WorkerId
from penstock.domain.serving import probe as platform
from penstock.domain.serving.ticket import HEADER, binding_of, of_platform, seal
from penstock.domain.serving.transport import Workers, is_own_shortage
from penstock.gateway.answers import collecting
from penstock.gateway.answers.collecting import Collected, Unreachable
from penstock.gateway.dispatch.breaker import Breakers
from penstock.gateway.dispatch.places import Place
from penstock.gateway.dispatch.records import Probe, ProbeResult, Why
from penstock.lateness.awake import timeout
from penstock.telemetry import logs, names
from penstock.telemetry.metrics import Metrics, begin_at_zero

_STATE_PATH = "/penstock/load"
_SHORTEST_WAIT_S = 0.02
_FULL = 503
_ALIVE = frozenset({ProbeResult.PASSED, ProbeResult.BUSY})
_FAILURES = frozenset({401, *range(500, 600)}) - {_FULL}
"""Refused tickets of the platform, and errors of the engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProberSettings:
    """An engine that neither answers in time nor makes progress has stalled."""

    ticket_key: Callable[[WorkerId], bytes]
    timeout_s: float = 5.0
    look_s: float = 0.5
    """Seconds between questions to the gate while a probe waits."""
    state_timeout_s: float = 1.0
    used_every_s: float = 20.0
    """Seconds between uses of each worker's connection: workers close idle ones after 75 s."""


class _State(msgspec.Struct):
    still_s: float | None = None
    """Seconds since the engine last made progress on waiting work, None if unknown."""
    draining: bool = False
    """Whether the gate refuses callers' new requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prober:
    workers: Workers
    breakers: Breakers
    settings: ProberSettings
    clock: Clock
    metrics: Metrics

    def __post_init__(self) -> None:
        begin_at_zero(self.metrics.counter(names.PROBES), Why, ProbeResult)

    async def run(self) -> None:
        woken = self.breakers.woken
        self.breakers.ask_again()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._stay_connected())
            while True:
                woken.clear()
                for probe in self.breakers.due(self.clock.monotonic()):
                    group.create_task(self._settle(probe, woken))
                await self._pause(woken)

    async def _stay_connected(self) -> None:
        while True:
            await asyncio.sleep(self.settings.used_every_s)
            for url in self.breakers.serving_urls():
                await self._state(url)

    async def _pause(self, woken: asyncio.Event) -> None:
        wait_s = self.breakers.next_due_at() - self.clock.monotonic()
        try:
            async with timeout(None if wait_s == float("inf") else max(_SHORTEST_WAIT_S, wait_s)):
                await woken.wait()
        except TimeoutError:
            return

    async def _settle(self, probe: Probe, woken: asyncio.Event) -> None:
        began = self.clock.monotonic()
        place = self.breakers.place_of(probe.worker)
        url = self.breakers.url_of(probe.worker)
        finding = await self._find(probe, place, url) if place and url else ProbeResult.CLOSED
        if finding in _ALIVE and (await self._state(url)).draining:
            finding = ProbeResult.CLOSED
        now, origin = self.clock.monotonic(), probe.origin
        self.metrics.counter(names.PROBES).labels(reason=probe.why, outcome=finding).inc()
        logs.logger().info(
            "worker_probed",
            worker=probe.worker,
            version=place.version if place else "",
            reason=probe.why,
            outcome=finding,
            seconds=round(now - began, 3),
            tenant=origin.tenant if origin else "",
            shape=origin.shape if origin else "",
        )
        self.breakers.judged(probe, finding, now)
        woken.set()

    async def _find(self, probe: Probe, place: Place, url: str) -> ProbeResult:
        path, body = platform.question(place.task)
        sent, began = msgspec.json.encode({"model": place.version, **body}), self.clock.monotonic()
        headers = self._headers(probe.worker, binding_of(path, sent))
        asking = asyncio.ensure_future(
            collecting.ask(self.workers, url, path, headers, sent, within_s=self.settings.timeout_s)
        )
        watching = asyncio.ensure_future(self._until_still(url))
        try:
            await asyncio.wait({asking, watching}, return_when=asyncio.FIRST_COMPLETED)
            return _judged(asking.result()) if asking.done() else ProbeResult.FAILED
        except Unreachable as error:
            return ProbeResult.BUSY if is_own_shortage(error.__cause__) else ProbeResult.CLOSED
        except TimeoutError:
            return await self._late(probe.worker, url, began)
        except OSError:
            return ProbeResult.FAILED
        finally:
            asking.cancel()
            watching.cancel()
            await asyncio.gather(asking, watching, return_exceptions=True)

    async def _late(self, worker: WorkerId, url: str, began: float) -> ProbeResult:
        still_s = (await self._state(url)).still_s
        is_moving = still_s is not None and still_s < self.settings.timeout_s
        return ProbeResult.BUSY if is_moving or self.breakers.has_answered_since(worker, began) else ProbeResult.FAILED

    async def _until_still(self, url: str) -> None:
        """Return when the gate reports that its engine has made no progress for the probe's timeout."""
        while True:
            await asyncio.sleep(self.settings.look_s)
            still_s = (await self._state(url)).still_s
            if still_s is not None and still_s >= self.settings.timeout_s:
                return

    async def _state(self, url: str) -> _State:
        try:
            reply = await collecting.ask(
                self.workers, url, _STATE_PATH, (), b"", within_s=self.settings.state_timeout_s
            )
            return msgspec.json.decode(reply.body, type=_State)
        except (OSError, msgspec.MsgspecError):
            return _State()

    def _headers(self, worker: WorkerId, binding: bytes) -> Sequence[tuple[str, str]]:
        now = self.clock.now()
        ticket = of_platform(now + self.settings.timeout_s)
        sealed = seal(ticket, self.settings.ticket_key(worker), binding, now)
        return (("content-type", "application/json"), (HEADER, sealed))


def _judged(reply: Collected) -> ProbeResult:
    if reply.status == _FULL:
        return ProbeResult.BUSY
    return ProbeResult.FAILED if reply.status in _FAILURES else ProbeResult.PASSED
