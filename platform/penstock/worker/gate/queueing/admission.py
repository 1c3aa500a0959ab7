"""The queue before one engine: each request enters, waits or is refused.

The fair queue gives the next request, the rules decide whether it may enter, the forecast whether a new one should
wait; so the engine's own queue stays short.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from penstock.domain.ids import RequestId, TenantId, VersionId
from penstock.domain.outage import SHORTEST_WAIT_S
from penstock.domain.serving.report import FIRST_PACE
from penstock.domain.serving.slo import TimedPromise
from penstock.domain.tenancy.standing import Standing
from penstock.domain.tenancy.tenant import PLATFORM
from penstock.domain.tokens import OUTPUT_WEIGHT, PROMPT_WEIGHT
from penstock.worker.gate.queueing.adapter_slots import AdapterSlots
from penstock.worker.gate.queueing.anticipation import Anticipation
from penstock.worker.gate.queueing.entered import Entered
from penstock.worker.gate.queueing.estimates import ServiceRate
from penstock.worker.gate.queueing.fair_queue import Bounds, FairQueue, oldest
from penstock.worker.gate.queueing.flow import Flow
from penstock.worker.gate.queueing.forecast import Forecast
from penstock.worker.gate.queueing.may_enter import MayEnter
from penstock.worker.gate.queueing.slots import EngineSize, Slots
from penstock.worker.gate.queueing.work import Fit, Work
from penstock.worker.gate.queueing.yielding import PROMISED, BatchHeld, Yielding


class Shed(StrEnum):
    """The request never started, so another worker may be tried."""

    FULL = "full"
    LATE = "late"
    EVICTED = "evicted"
    CLOSING = "closing"
    KV_PART = "kv_part"
    """Its tenant's requests hold its part of the KV blocks, and its gateway would rather degrade it than wait."""
    ADAPTER = "adapter"
    """The request's adapter isn't served here."""


Admit = Callable[[], None]
Reject = Callable[[Shed, float], None]


@dataclass(slots=True)
class _Entry:
    work: Work
    admit: Admit
    reject: Reject
    prompt_left: int
    output_tokens: int = 0
    entered_at: float | None = None


class AdmissionQueue:
    """Calls never overlap. ``pace`` is the initial estimate in tokens of service per second."""

    def __init__(
        self,
        size: EngineSize,
        *,
        bounds: Bounds | None = None,
        pace: float = FIRST_PACE,
        adapters: AdapterSlots | None = None,
    ) -> None:
        self.slots, self.adapters = Slots(size), adapters
        self.fair, self.rules = FairQueue(bounds), MayEnter(self.slots)
        self.forecast = Forecast(self.fair, self.rules, ServiceRate(initial=pace), adapters)
        self.entered, self.yielding = Entered(), Yielding()
        self.look_at: float | None = None
        """The second at which the next choice may differ though nothing has happened; None if it won't."""
        self.look_later: Callable[[float], None] = lambda _: None
        """Have ``look`` called after some seconds: the owner's timer. Without one it goes on at the next event."""
        self._anticipation, self._shared_at, self._timer_at = Anticipation(), 0, math.inf
        self._entries: dict[RequestId, _Entry] = {}
        self._stops = 0
        """Slots inside of requests that may stand still: they are no evidence."""

    def __len__(self) -> int:
        return len(self.fair)

    @property
    def waiting_cost(self) -> float:
        return self.fair.waiting_cost

    def share_of(self, work: Work) -> float | None:
        return self.rules.active.share_of(work)

    def expected_wait_s(self, work: Work, now: float) -> float:
        return self.forecast.wait_s(work, now)

    def is_own(self, work: Work, now: float) -> bool:
        return self.forecast.is_own(work, now)

    # -- coming and leaving ------------------------------------------------------------------

    def arrive(self, work: Work, now: float, admit: Admit, reject: Reject) -> None:
        """Exactly one callback is called, now or later, unless the request leaves before."""
        self._see(work, now)
        forecast = self.forecast
        if not work.kv_waits and self.rules.is_over_kv(work, sum(map(self._blocks_of, self.fair.waiting_beside(work)))):
            reject(Shed.KV_PART, forecast.wait_s(work, now))
            return
        wait_s = self.expected_wait_s(work, now)
        retries_s = 0.0 if not wait_s or forecast.retries.takes(work, now) else forecast.retries_s(work, now)
        late_s = forecast.late_s(work, now, wait_s, retries_s)
        too_long_s = forecast.timed_out_s(work, now, wait_s, retries_s) if late_s is None else late_s
        evicted = self._push(work, now) if too_long_s is None else None
        if evicted is None:
            over_s = forecast.room_s(work) + retries_s if too_long_s is None else too_long_s
            reject(Shed.FULL if late_s is None else Shed.LATE, forecast.retry_s(work, over_s, now))
            return
        for victim in evicted:
            self._send_away(victim.request, Shed.EVICTED, forecast.again_s(victim, now))
        self.entered.came(work)
        self.yielding.came(work.standing)
        self._entries[work.request] = _Entry(work, admit, reject, work.prompt_tokens)
        self._open(now)

    def give_up(self, request: RequestId, now: float) -> float:
        """Return the seconds until its caller should retry."""
        again_s = self.forecast.again_s(self._entries[request].work, now)
        self.leave(request, now)
        return again_s

    def leave(self, request: RequestId, now: float) -> None:
        entry = self._entries.pop(request, None)
        if entry is None:
            return
        self.entered.gone(entry.work)
        self.yielding.left(entry.work.standing, now)
        if entry.entered_at is None:
            self._take_out(request)
            return
        if entry.work.stops_until:
            self._stops -= entry.work.sequences
        else:
            self.forecast.stay.learn(now - entry.entered_at, entry.work.cost)
        self.forecast.retries.learn(entry.work, entry.output_tokens)
        self.slots.leave(request)
        unused = entry.work.expected_output_tokens - entry.output_tokens
        if unused > 0:
            self.fair.correct(entry.work, -OUTPUT_WEIGHT * unused)
        self._finish(entry.work, now)
        if not len(self.slots):
            self.forecast.pace.idle(now)
        self._open(now)

    def close(self) -> None:
        for entry in [entry for entry in self._entries.values() if entry.entered_at is None]:
            self._take_out(entry.work.request)
            self._send_away(entry.work.request, Shed.CLOSING, 0.0)

    def turn_away(self, adapter: VersionId, now: float, for_s: float = 0.0) -> None:
        """Refuse all waiting requests for an adapter; ``for_s`` until their retry."""
        for work in [one.work for one in self._entries.values() if one.entered_at is None]:
            if work.adapter == adapter:
                self._take_out(work.request)
                self._send_away(work.request, Shed.ADAPTER, max(SHORTEST_WAIT_S, for_s))
        self._open(now)

    # -- what the engine has done ------------------------------------------------------------

    def progressed(self, request: RequestId, tokens: int, now: float) -> None:
        """The first output tokens also mean that the prompt is prefilled."""
        entry = self._entries[request]
        done = PROMPT_WEIGHT * entry.prompt_left + OUTPUT_WEIGHT * tokens
        entry.output_tokens += tokens
        kept_back = PROMISED if self.slots.batch_slots is not None else Standing.SHADOW
        self.forecast.pace.did(done, now, full=self.fair.waits_from(kept_back))
        over = entry.output_tokens - entry.work.expected_output_tokens
        if over > 0:
            self.fair.correct(entry.work, OUTPUT_WEIGHT * min(over, tokens))
            self.slots.grow(entry.work, entry.output_tokens)
        if entry.prompt_left and entry.entered_at is not None:
            entry.prompt_left = 0
            self.slots.prefilled(request)
            self._open(now)

    def first_token(self, promise: TimedPromise, took_s: float, now: float) -> None:
        """Evidence about batch work beside a promised request."""
        self.yielding.first_token(promise, took_s, now, self._held_by_batch())

    def stepped(self, promise: TimedPromise, took_s: float, at: float) -> None:
        """Count a further token of a request; batch work has no promise."""
        self.yielding.step(promise, took_s, at, self._held_by_batch)

    def _held_by_batch(self) -> BatchHeld:
        return BatchHeld(self.slots.held_up_to(Standing.BATCH).slots - self._stops, self.slots.whole.slots)

    def counted(self, request: RequestId, prompt_tokens: int) -> None:
        """Release excess charge and blocks by the engine's count."""
        entry = self._entries.get(request)
        if entry is None or entry.entered_at is None or prompt_tokens >= entry.work.prompt_tokens:
            return
        self.fair.correct(entry.work, -PROMPT_WEIGHT * (entry.work.prompt_tokens - prompt_tokens))
        entry.work = replace(entry.work, prompt_tokens=prompt_tokens)
        entry.prompt_left = min(entry.prompt_left, prompt_tokens)
        self.slots.recount(entry.work, entry.output_tokens)

    def look(self, now: float) -> None:
        self._timer_at = math.inf
        self._open(now)

    # -- which is next -----------------------------------------------------------------------

    def _open(self, now: float) -> None:
        while (work := self._next(now)) is not None:
            if self.forecast.is_hopeless(work, now):
                self.fair.correct(work, -work.cost)
                self._finish(work, now)
                self._send_away(work.request, Shed.LATE, self.forecast.again_s(work, now))
                continue
            entry = self._entries[work.request]
            entry.entered_at = now
            self.slots.take(work)
            self._stops += work.sequences if work.stops_until else 0
            self.forecast.pace.busy(now)
            entry.admit()
            self.entered.entered(work)
        self._look_at(self.look_at, now)
        if len(self.fair):
            for least in (PROMISED, Standing.INTERACTIVE):
                over_at = self.yielding.about_until(least)
                self._look_at(over_at if now < over_at < math.inf else None, now)

    def _look_at(self, at: float | None, now: float) -> None:
        if at is not None and at < self._timer_at:
            self._timer_at = at
            self.look_later(max(0.0, at - now))

    def _next(self, now: float) -> Work | None:
        work = self._choose(now)
        if self.look_at is None:
            self._anticipation.rest(now)
        if self.adapters is None:
            return work
        if work is not None and work.adapter:
            self.adapters.enter(work.adapter, now)
            self._wanted_less(work)
        if self.adapters.look_at is not None:
            self.look_at = min(math.inf if self.look_at is None else self.look_at, self.adapters.look_at)
            self.adapters.look_at = None
        return work

    @property
    def _is_full(self) -> bool:
        size = self.slots.size
        return self.slots.is_full and not (size.preempts or size.time_shares)

    def _choose(self, now: float) -> Work | None:
        """First one that its tenant's reserved slots cover, else the next in fair order that fits."""
        self.look_at = None
        if not len(self.fair) or self._is_full:
            return None
        self.rules.forget(now)
        self.slots.batch_slots = self.yielding.slots(now)
        self._share_anew()

        def pick(flow: Flow) -> Work:
            if self.adapters is None:
                return oldest(flow)
            return flow.oldest(lambda adapter: self._may_join(adapter, flow.tenant, now))

        for tenant in self.rules.reserved.owed():
            head = self.fair.head_of(tenant, pick)
            if head is not None and self.rules.reserved.covers(head) and self._may_join(head.adapter, tenant, now):
                return self.fair.pop_apart(head) if self.slots.room_for(head) is Fit.YES else None
        return self.fair.pop(lambda work: self._fits(work, now), pick)

    def _fits(self, work: Work, now: float) -> Fit:
        if now < min(work.stops_until, self.yielding.about_until(Standing.INTERACTIVE)):
            return Fit.AFTER_YOU
        if not self._may_join(work.adapter, work.tenant, now):
            return Fit.NO_SLOT
        fit = self.rules.fits(work, is_owed=self.fair.is_owed(work))
        if fit is not Fit.YES or not self.rules.may_leave_free:
            return fit
        until = self._anticipation.until(work, self.fair, self.forecast.stay.of(work.cost), now)
        if until is not None:
            self.look_at = until
        return fit if until is None else Fit.AFTER_YOU

    def _may_join(self, adapter: VersionId, tenant: TenantId, now: float) -> bool:
        """Before the adapter is ready only the platform's tests may use it."""
        return self.adapters is None or not adapter or self.adapters.ask(adapter, now, checks=tenant == PLATFORM)

    def _share_anew(self) -> None:
        if self._shared_at != self.rules.active.changes:
            self._shared_at = self.rules.active.changes
            for tenant, _ in self.slots.holders():
                self.fair.share(tenant, self._slots_of)

    def _slots_of(self, work: Work) -> float:
        return self.rules.active.share_of(work) * self.slots.places_for(work)

    # -- books -------------------------------------------------------------------------------

    def _blocks_of(self, work: Work) -> float:
        return self.slots.need(work).blocks

    def _see(self, work: Work, now: float) -> None:
        if self.adapters is not None and work.adapter:
            self.adapters.residents.wish(work.adapter, work.tenant, now)
        self.rules.seen(work, now)
        self._anticipation.came(work.tenant, now)

    def _push(self, work: Work, now: float) -> Sequence[Work] | None:
        """Return the evicted requests; None, without a change, if there is no room."""
        evicted = self.fair.make_room(work)
        if evicted is None:
            return None
        self.rules.active.come(work.tenant)
        if self.adapters is not None and work.adapter:
            self.adapters.residents.came(work.adapter, work.tenant, now)
        self.fair.push(work, self._slots_of(work))
        for victim in evicted:
            self._forget(victim)
        return evicted

    def _take_out(self, request: RequestId) -> None:
        work = self.fair.remove(request)
        if work is not None:
            self._forget(work)

    def _forget(self, work: Work) -> None:
        self.rules.active.leave(work.tenant)
        self._wanted_less(work)

    def _wanted_less(self, work: Work) -> None:
        adapters = self.adapters
        if adapters is not None and work.adapter and adapters.residents.gone(work.adapter, work.tenant):
            adapters.gave_up(work.adapter)

    def _finish(self, work: Work, now: float) -> None:
        active = self.rules.active
        active.leave(work.tenant)
        self.fair.finish(work)
        if self.adapters is not None and work.adapter:
            self.adapters.leave(work.adapter)
        if not active.is_here(work.tenant):
            self._anticipation.left(work.tenant, work.standing, now)

    def _send_away(self, request: RequestId, why: Shed, wait_s: float) -> None:
        entry = self._entries.pop(request)
        self.yielding.left(entry.work.standing)
        entry.reject(why, wait_s)
        self.entered.gone(entry.work)
