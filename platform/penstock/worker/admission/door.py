"""The door of the engine: who comes in now, who waits, who is sent away; one per engine.

It joins the policies (fair queue, seats, pace) and keeps the engine's own queue shallow: whatever waits, waits here,
where order and bounds are ours. It never blocks; whoever waits is told by a callback. Time is an argument.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from penstock.domain.ids import RequestId, TenantId
from penstock.worker.admission.cost import OUTPUT_WEIGHT, PROMPT_WEIGHT, Fit, Work
from penstock.worker.admission.fair_queue import FairQueue
from penstock.worker.admission.pace import Pace, wait_s
from penstock.worker.admission.seats import Seats

ACTIVE_S = 30.0
"""A tenant counts as active, and keeps its share of the seats free, so long after its last request."""


class Away(StrEnum):
    """Why a request is sent away; it never started, so another worker may be tried."""

    FULL = "full"
    LATE = "late"
    EVICTED = "evicted"
    CLOSING = "closing"


@dataclass(slots=True)
class _Guest:
    """A request at the door or inside, and how to tell it what happens."""

    work: Work
    let_in: Callable[[], None]
    send_away: Callable[[Away, float], None]
    prompt_left: int
    output_tokens: int = 0
    inside: bool = False


@dataclass(slots=True)
class Door:
    """Single-threaded: every call runs to its end before the next."""

    queue: FairQueue
    seats: Seats
    pace: Pace
    _guests: dict[RequestId, _Guest] = field(default_factory=dict)
    _active: dict[TenantId, tuple[float, float]] = field(default_factory=dict)

    def arrive(
        self, work: Work, now: float, let_in: Callable[[], None], send_away: Callable[[Away, float], None]
    ) -> None:
        """Take a request: exactly one of the callbacks is called, now or later, unless it leaves before."""
        self._active[work.tenant] = (now, work.weight)
        expected_s = self.expected_wait_s(work)
        if work.deadline_at and now + expected_s > work.deadline_at:
            send_away(Away.LATE, expected_s)
            return
        if not self.queue.has_room(work) and not self._make_room(work):
            send_away(Away.FULL, max(1.0, expected_s))
            return
        self._guests[work.request] = _Guest(work, let_in, send_away, work.prompt_tokens)
        self.queue.push(work)
        self._open(now)

    def close(self) -> None:
        """Send everybody away who still waits: this worker is going, another one may serve them."""
        for guest in [guest for guest in self._guests.values() if not guest.inside]:
            self.queue.remove(guest.work.request)
            del self._guests[guest.work.request]
            guest.send_away(Away.CLOSING, 0.0)

    def expected_wait_s(self, work: Work) -> float:
        """Return how long the request would wait: its tenant's queued work at its share of the measured pace."""
        if not len(self.queue) and self.seats.fits(work, self._share(work)) is Fit.YES:
            return 0.0
        return wait_s(self.queue.ahead_of(work), self.queue.share_of(work), self.pace)

    def progressed(self, request: RequestId, tokens: int, now: float) -> None:
        """Some output tokens came (the first ones also mean that the prompt is done)."""
        guest = self._guests[request]
        done = PROMPT_WEIGHT * guest.prompt_left + OUTPUT_WEIGHT * tokens
        guest.output_tokens += tokens
        self.pace.did(done, now)
        over = guest.output_tokens - guest.work.expected_output_tokens
        if over > 0:
            self.queue.correct(guest.work, OUTPUT_WEIGHT * min(over, tokens))
            self.seats.grow(guest.work, guest.work.prompt_tokens + guest.output_tokens)
        if guest.prompt_left:
            guest.prompt_left = 0
            self.seats.prefilled(request)
            self._open(now)

    def leave(self, request: RequestId, now: float) -> None:
        """The request ended, however; what it had booked and not used is given back. Twice is harmless."""
        guest = self._guests.pop(request, None)
        if guest is None:
            return
        if not guest.inside:
            self.queue.remove(request)
            return
        self.seats.leave(request)
        unused = guest.work.expected_output_tokens - guest.output_tokens
        if unused > 0:
            self.queue.correct(guest.work, -OUTPUT_WEIGHT * unused)
        self.queue.finish(guest.work)
        if not len(self.seats):
            self.pace.idle(now)
        self._open(now)

    def _open(self, now: float) -> None:
        """Let in whoever is next, as long as somebody fits."""
        self._forget_inactive(now)
        while (work := self.queue.pop(lambda w: self.seats.fits(w, self._share(w)))) is not None:
            guest = self._guests[work.request]
            guest.inside = True
            self.seats.take(work)
            self.pace.busy(now)
            guest.let_in()

    def _make_room(self, work: Work) -> bool:
        """Evict waiting requests of worse classes until this one has room; False where that can't help."""
        while not self.queue.has_room(work):
            victim = self.queue.newest_below(work.priority)
            if victim is None:
                return False
            self.queue.remove(victim.request)
            self._guests.pop(victim.request).send_away(Away.EVICTED, self.expected_wait_s(victim))
        return True

    def _share(self, work: Work) -> float:
        """Return the part of the engine this tenant is entitled to among the active ones; all of it when alone."""
        total = sum(weight for _, weight in self._active.values())
        own = self._active.get(work.tenant, (0.0, work.weight))[1]
        return own / max(total, own)

    def _forget_inactive(self, now: float) -> None:
        if any(now - seen > ACTIVE_S for seen, _ in self._active.values()):
            inside = {guest.work.tenant for guest in self._guests.values()}
            self._active = {
                tenant: (seen, weight)
                for tenant, (seen, weight) in self._active.items()
                if now - seen <= ACTIVE_S or tenant in inside
            }
