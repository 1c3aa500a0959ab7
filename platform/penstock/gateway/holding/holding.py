"""Holds requests until a worker of their version wakes or starts again, within bounds; releases them in fair order.

The lease stays open meanwhile, and streams send heartbeats.

Trade-off: a held request occupies slots for seconds, while a refusal would cost nothing. Hence the bounds; and a
request with a deadline before the expected wake is refused at once (ADR 0090).
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from penstock.domain.clock import Clock
from penstock.domain.errors import (
    Asleep,
    DeadlineExceeded,
    DeadlineInQueue,
    DeadlineUnreachable,
    Evicted,
    NoCapacity,
    PenstockError,
)
from penstock.domain.fleet.table import VersionEntry
from penstock.domain.ids import VersionId, WorkerId
from penstock.domain.outcome import Stage
from penstock.gateway.calls.call import Admitted
from penstock.gateway.calls.relay import Relay
from penstock.gateway.holding import wakes
from penstock.gateway.holding.demand import WakeDemand, Want
from penstock.gateway.holding.places import HeldRequest, HoldSettings, Places
from penstock.telemetry import names
from penstock.telemetry.metrics import Metrics

NEWS_WITHIN_S = 1.0
"""The longest delay with which the table shows that a worker sleeps."""
_AGAIN_S = 5.0
"""``Retry-After`` in seconds if the duration of a wake is unknown."""
_LOOK_S = 0.02


class Fleet(Protocol):
    def version(self, version: VersionId) -> VersionEntry | None: ...

    def serving(self, version: VersionId) -> int: ...


@dataclass(slots=True, eq=False)
class HeldCall:
    """A request that waits; meanwhile it is the relay's ``Source``."""

    queue: "_Queue"
    call: Admitted
    entry: HeldRequest
    _free: "asyncio.Future[None]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    async def until_awake(self, relay: Relay) -> None:
        holding, call = self.queue.holding, self.call
        began, held_s = holding.clock.monotonic(), call.timings.seconds.get(Stage.WAKE, 0.0)
        timer = asyncio.get_running_loop().call_later(max(0.0, holding.settings.seconds - held_s), self._tired)
        relay.attach(self)
        try:
            await self._free
        finally:
            timer.cancel()
            call.timings.mark(Stage.WAKE)
            if call.lease.start_by:
                call.lease.start_by += holding.clock.monotonic() - began

    def leave(self) -> None:
        self.queue.leave(self)

    def go_on(self) -> None:
        self.end(None, "woken")

    def end(self, error: PenstockError | None, why: str) -> None:
        if self._free.done():
            return
        self.queue.holding.count(self.queue.version, why)
        if error is None:
            self._free.set_result(None)
        else:
            self._free.set_exception(error)

    def abort(self, error: PenstockError) -> None:
        if isinstance(error, DeadlineExceeded):
            wait_s = self.queue.expected_s
            late = DeadlineInQueue("the deadline passed before a worker of the model served", retry_after_s=wait_s)
            self.end(late, "late")
        else:
            self.end(error, "left")

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def _tired(self) -> None:
        self.end(self.queue.refusal("no worker of the model served within the longest time of a hold"), "late")


@dataclass(slots=True, eq=False)
class _Queue:
    """``going``: released requests without an answer yet."""

    holding: "Holding"
    version: VersionId
    places: Places
    going: set[HeldCall] = field(default_factory=set)

    @property
    def expected_s(self) -> float:
        version = self.holding.fleet.version(self.version)
        return (wakes.expected_s(version) if version is not None else 0.0) or _AGAIN_S

    def refusal(self, why: str) -> NoCapacity:
        return NoCapacity(f"{why}; {len(self.places)} requests wait for it", retry_after_s=self.expected_s)

    def enter(self, call: Admitted) -> HeldCall:
        lease, who, plan = call.lease, call.principal, call.principal.plan
        tokens = call.cost.prompt_tokens + lease.expected_output
        entry = HeldRequest(
            who=lease, tenant=who.tenant, weight=max(1, plan.weight), standing=call.standing, tokens=tokens
        )
        gave_way = self.places.enter(entry)
        if gave_way is None:
            self.holding.count(self.version, "full")
            raise self.refusal("no worker of the model serves yet, and no more requests are held for it")
        held = self.holding.all[entry] = HeldCall(self, call, entry)
        for other in gave_way:
            self.holding.all.pop(other).end(
                Evicted("others wait for this model too, and have less of its places", retry_after_s=self.expected_s),
                "displaced",
            )
        return held

    def leave(self, held: HeldCall) -> None:
        self.places.remove(held.entry)
        self.holding.all.pop(held.entry, None)
        self.going.discard(held)
        self.look()
        if not (self.places or self.going):
            self.holding.forget(self)

    def look(self) -> None:
        """Release up to the serving engines' capacity; the rest follows as answers end."""
        serving = self.holding.fleet.serving(self.version)
        version = self.holding.fleet.version(self.version)
        room = serving * max(1, version.max_num_seqs if version is not None else 1)
        while len(self.going) < room and (entry := self.places.next()) is not None:
            held = self.holding.all[entry]
            self.going.add(held)
            held.go_on()

    def fail(self, why: str, reason: str) -> None:
        for entry in self.places.all():
            self.holding.all[entry].end(self.refusal(why), reason)

    def give_up(self) -> None:
        for entry in self.places.all():
            self.holding.all[entry].end(wakes.crowded_out(), wakes.GIVEN_UP)


class Holding:
    def __init__(
        self, *, fleet: Fleet, demand: WakeDemand, clock: Clock, settings: HoldSettings, metrics: Metrics
    ) -> None:
        self.fleet, self.clock, self.settings = fleet, clock, settings
        self.all: dict[HeldRequest, HeldCall] = {}
        self._demand = demand
        demand.held, demand.away = self.wanted, self._away
        self._queues: dict[VersionId, _Queue] = {}
        self._wakers: dict[VersionId, frozenset[WorkerId]] = {}
        self._holds = metrics.counter(names.HOLDS)
        metrics.gauge(names.HELD_REQUESTS).set_function(lambda: len(self.all))

    def place(self, call: Admitted) -> HeldCall | None:
        if not (self._wakers or self._queues):
            return None
        if call.fell_back_from in self._wakers:
            self._demand.note(call.fell_back_from, call.cost.prompt_tokens)
        version = self._awaited(call)
        if version is None:
            return None
        queue = self._queues.get(version.id)
        if queue is None:
            queue = _Queue(self, version.id, Places(self.settings))
        self._refuse_crowded_out(version)
        self._refuse_late(version, call)
        held = queue.enter(call)
        self._queues[version.id] = queue
        if self.fleet.serving(version.id):
            queue.look()
        else:
            self._demand.begin(version.id)
        return held

    async def again(self, call: Admitted, error: PenstockError) -> bool:
        version = _target(call)
        patience_s = NEWS_WITHIN_S if isinstance(error, Asleep) else 0.0
        until = self.clock.monotonic() + patience_s
        while True:
            if version in self._wakers and not self.fleet.serving(version):
                return call.copy is None
            if self.clock.monotonic() >= until:
                return False
            await asyncio.sleep(_LOOK_S)

    def passed_by(self, version: VersionEntry) -> None:
        if version.id in self._wakers:
            self._demand.note(version.id, 0)

    def learn(self, versions: Iterable[VersionEntry]) -> None:
        found = {one.id: wakes.wakers(one, self._wakers.get(one.id, ()), self.settings.seconds) for one in versions}
        for queue in list(self._queues.values()):
            if queue.version not in found:
                queue.fail("the model is served no more", "away")
        self._wakers = {version: who for version, who in found.items() if who}
        for queue in list(self._queues.values()):
            queue.look()
            version = self.fleet.version(queue.version)
            if version is not None and wakes.is_crowded_out(version):
                queue.give_up()

    def wanted(self) -> Mapping[VersionId, Want]:
        return {
            version: Want(len(queue.places), queue.places.tokens)
            for version, queue in self._queues.items()
            if queue.places and not self.fleet.serving(version)
        }

    def count(self, version: VersionId, outcome: str) -> None:
        self._holds.labels(model=version.partition("@")[0], outcome=outcome).inc()

    def forget(self, queue: _Queue) -> None:
        if self._queues.get(queue.version) is queue:
            del self._queues[queue.version]

    def _awaited(self, call: Admitted) -> VersionEntry | None:
        name = _target(call)
        is_queued = name in self._queues
        if not is_queued and (name not in self._wakers or self.fleet.serving(name)):
            return None
        if call.copy is not None or call.lease.over_quota is not None:
            return None
        return self.fleet.version(name)

    def _refuse_crowded_out(self, version: VersionEntry) -> None:
        """Refuse requests of a version that can't wake at all: no demand is reported."""
        if wakes.is_crowded_out(version):
            self.count(version.id, wakes.GIVEN_UP)
            raise wakes.crowded_out()

    def _refuse_late(self, version: VersionEntry, call: Admitted) -> None:
        """Refuse a deadline before the expected wake; demand is reported for later requests."""
        wait_s = wakes.expected_s(version)
        if self.fleet.serving(version.id) or self.clock.monotonic() + wait_s <= call.lease.deadline_at:
            return
        self._demand.note(version.id, call.cost.prompt_tokens)
        self.count(version.id, "late")
        raise DeadlineUnreachable(
            f"no worker of the model serves yet: one does in about {wait_s:.0f} s, and the deadline is before that",
            retry_after_s=wait_s,
        )

    def _away(self) -> None:
        for queue in list(self._queues.values()):
            if not self.fleet.serving(queue.version):
                queue.fail("no worker of the model serves, and the database that reports new ones is away", "away")


def _target(call: Admitted) -> VersionId:
    """Return the version that has the workers: the base of an adapter."""
    return call.version.base or call.version.id
