"""Delivers webhooks: claims what is due, sends it signed, notes what came of it. At least once, under one id.

Each attempt is a task of its own, so that a receiver that hangs holds its own connection and nothing else.
"""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from penstock.domain.clock import Clock
from penstock.domain.errors import StoreUnavailable
from penstock.domain.jobs.ids import EndpointId, RunnerId
from penstock.domain.jobs.webhook import (
    Answer,
    ClaimedDelivery,
    DeliveryId,
    EndedAttempt,
    OffReason,
    SendError,
    TurnedOff,
    Verdict,
    WaitingEndpoint,
)
from penstock.jobs.receivers import MOST_AT_ONCE, SLOW_S, Sending, choose
from penstock.jobs.schedule import after
from penstock.jobs.signing import body_of, headers_of
from penstock.telemetry import names
from penstock.telemetry.logs import logger
from penstock.telemetry.metrics import Metrics, begin_at_zero

EVERY_S = 0.25
"""Seconds between two looks for due deliveries: an event's first attempt begins within half a second."""
FORGET_EVERY_S = 60.0
END_WITHIN_S = 2.0
"""Seconds that an ending runner gives its open attempts."""
FENCED = "fenced"
"""The outcome of an attempt whose delivery had been given to another runner, or deleted, before it ended."""
OUTCOMES = (*[verdict.value for verdict in Verdict], FENCED)


class Sender(Protocol):
    async def post(self, tenant: str, url: str, headers: Mapping[str, str], body: bytes) -> Answer: ...


class DeliveryStore(Protocol):
    async def take_over(self) -> int: ...
    async def waiting(self) -> tuple[WaitingEndpoint, ...]: ...
    async def claim(self, runner: RunnerId, wanted: Mapping[EndpointId, int]) -> tuple[ClaimedDelivery, ...]: ...
    async def end(self, ended: Sequence[EndedAttempt]) -> tuple[frozenset[DeliveryId], tuple[TurnedOff, ...]]: ...
    async def give_back(self, held: Sequence[ClaimedDelivery]) -> None: ...
    async def forget(self) -> int: ...
    async def turn_off_overfull(self) -> tuple[TurnedOff, ...]: ...


@dataclass(slots=True)
class _Open:
    delivery: ClaimedDelivery
    since: float
    is_failing: bool
    task: "asyncio.Task[None] | None" = None


@dataclass(slots=True, kw_only=True)
class Deliveries:
    """The runner's upkeep of webhooks; ``me`` returns the runner's id, None while it may not claim."""

    store: DeliveryStore
    sender: Sender
    me: Callable[[], RunnerId | None]
    clock: Clock
    chance: random.Random
    metrics: Metrics
    name: str = "deliveries"
    every_s: float = EVERY_S
    _open: dict[DeliveryId, _Open] = field(default_factory=dict)
    _ended: list[EndedAttempt] = field(default_factory=list)
    _forgot_at: float = 0.0
    _is_ending: bool = False

    def __post_init__(self) -> None:
        begin_at_zero(self.metrics.counter(names.WEBHOOK_ATTEMPTS), OUTCOMES)
        reasons = [reason.value for reason in OffReason if reason is not OffReason.OWNER]
        begin_at_zero(self.metrics.counter(names.WEBHOOKS_TURNED_OFF), reasons)

    @property
    def is_busy(self) -> bool:
        return bool(self._open)

    async def step(self, now: float) -> None:
        await self._note_ends()
        await self.store.take_over()
        while await self._begin_round() >= MOST_AT_ONCE:
            await self._note_ends()
        if now - self._forgot_at >= FORGET_EVERY_S:
            self._forgot_at = now
            await self.store.forget()
            self._show_off(await self.store.turn_off_overfull())

    async def _begin_round(self) -> int:
        """Begin the attempts of one round, and return the number that was claimed."""
        waiting, sending = await self.store.waiting(), self._sending()
        chosen = choose(waiting, sending)
        self._show_late(waiting, sending, chosen)
        runner = self.me()
        if not chosen or runner is None or self._is_ending:
            return 0
        failing = {one.endpoint for one in waiting if one.is_failing}
        claimed = await self.store.claim(runner, chosen)
        for delivery in claimed:
            self._begin(delivery, is_failing=delivery.endpoint in failing)
        return len(claimed)

    async def end(self) -> None:
        """Let open attempts end for a moment; what is left is due for other runners, the same attempt again.

        While the database is away they find it by this runner's end instead.
        """
        self._is_ending = True
        tasks = [one.task for one in self._open.values() if one.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=END_WITHIN_S)
        with suppress(StoreUnavailable):
            await self._note_ends()
        left = list(self._open.values())
        for one in left:
            if one.task is not None:
                one.task.cancel()
        with suppress(StoreUnavailable):
            await self.store.give_back([one.delivery for one in left])

    def _begin(self, delivery: ClaimedDelivery, *, is_failing: bool) -> None:
        held = _Open(delivery, self.clock.monotonic(), is_failing)
        self._open[delivery.id] = held
        held.task = asyncio.create_task(self._attempt(delivery))

    async def _attempt(self, delivery: ClaimedDelivery) -> None:
        answer = await self._send(delivery)
        follows = after(delivery.attempt, answer, self.chance)
        self._open.pop(delivery.id, None)
        self._ended.append(EndedAttempt(id=delivery.id, epoch=delivery.epoch, answer=answer, next=follows))

    async def _send(self, delivery: ClaimedDelivery) -> Answer:
        if not delivery.secrets:
            return Answer(error=SendError.SECRET)
        body = body_of(delivery.event)
        headers = headers_of(delivery.event.id, self.clock.now(), body, delivery.secrets)
        return await self.sender.post(delivery.tenant, delivery.url, headers, body)

    async def _note_ends(self) -> None:
        """Write attempts' ends; an unavailable database leaves them for the next step."""
        ended = self._ended[:]
        if not ended:
            return
        held, off = await self.store.end(ended)
        del self._ended[: len(ended)]
        count = self.metrics.counter(names.WEBHOOK_ATTEMPTS)
        for one in ended:
            count.labels(one.next.verdict.value if one.id in held else FENCED).inc()
        self._show_off(off)

    def _show_off(self, off: Sequence[TurnedOff]) -> None:
        for endpoint in off:
            self.metrics.counter(names.WEBHOOKS_TURNED_OFF).labels(endpoint.reason.value).inc()
            logger().warning(
                "webhook_turned_off", object=endpoint.endpoint, tenant=endpoint.tenant, reason=endpoint.reason.value
            )

    def _sending(self) -> dict[EndpointId, Sending]:
        now = self.clock.monotonic()
        found: dict[EndpointId, Sending] = {}
        for one in self._open.values():
            endpoint, is_slow = one.delivery.endpoint, now - one.since > SLOW_S
            known = found.get(endpoint)
            found[endpoint] = Sending(
                tenant=one.delivery.tenant,
                count=known.count + 1 if known else 1,
                is_failing=one.is_failing or (known is not None and known.is_failing),
                is_slow=is_slow or (known is not None and known.is_slow),
            )
        return found

    def _show_late(
        self,
        waiting: Sequence[WaitingEndpoint],
        sending: Mapping[EndpointId, Sending],
        chosen: Mapping[EndpointId, int],
    ) -> None:
        """Show for how long the oldest due delivery has waited for a connection: not for its own slow receiver."""
        late = [one.late_s for one in waiting if one.endpoint not in sending and not one.is_failing]
        self.metrics.gauge(names.WEBHOOK_OLDEST_DUE_SECONDS).set(max(late, default=0.0))
        self.metrics.gauge(names.WEBHOOK_CONNECTIONS).set(len(self._open) + sum(chosen.values()))
