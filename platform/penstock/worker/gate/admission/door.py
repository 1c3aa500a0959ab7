"""The door of the engine: who comes in now, who waits, who is rejected; one per engine.

It joins the policies (an order, seats, a measured pace) and keeps the engine's own queue shallow: whatever waits, waits
here, where order and bounds are ours. It never blocks; whoever waits is called back. Time is an argument. It
must not know how its order chooses.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Protocol

from penstock.domain.ids import RequestId, VersionId
from penstock.domain.tokens import OUTPUT_WEIGHT, PROMPT_WEIGHT
from penstock.worker.gate.admission.adapter_slots import AdapterSlots
from penstock.worker.gate.admission.before import Before
from penstock.worker.gate.admission.cost import Work
from penstock.worker.gate.admission.pace import Pace, Prefill, Stay
from penstock.worker.gate.admission.returns import Returns
from penstock.worker.gate.admission.seats import Seats

LEAST_RETRY_S = 1.0
"""The least that a refused caller is asked to wait: the header counts in seconds."""

MOST_RETRY_S = 60.0
"""And the most: what is to come in a minute nobody knows."""

WAIT_HEADROOM = 1.2
"""How much longer than expected a wait may become: others may come who go before."""

RETRY_HEADROOM = 1.3
"""How much longer than expected a refused caller is asked to wait: whoever comes in vain has to come once more."""

NEW_PART = 0.65
"""The part of its time that whoever comes new may wait, while others of its tenant were told to come back."""

STAY_HEADROOM = 2.0
"""How much longer than others of its expected cost a request may run: about one of ten does, and would be in vain."""

LEAST_LOOK_S = 1e-6
"""The door asks to be looked at no sooner: less than its owner's clock can tell would be now, again and again."""

FIRST_TOKENS = 2
"""With so many tokens or less, a first report tells when the prompt was done; with more it is a whole answer."""


class Shed(StrEnum):
    """Why a request is rejected; it never started, so another worker may be tried."""

    FULL = "full"
    LATE = "late"
    EVICTED = "evicted"
    CLOSING = "closing"
    ADAPTER = "adapter"
    """The adapter that it asks for isn't served here."""


class Order(Protocol):
    """Who waits, who gives way and who is next: what makes a door fair, or not."""

    def __len__(self) -> int:
        """Requests waiting."""
        ...

    @property
    def waiting_cost(self) -> float:
        """Tokens of service waiting."""
        ...

    @property
    def look_at(self) -> float | None:
        """The second at which ``next`` may say something else though nothing has happened; None where it won't."""
        ...

    def seen(self, work: Work, now: float) -> None:
        """A request has come to the door, whatever becomes of it."""
        ...

    def ahead_of(self, work: Work) -> float:
        """Return the tokens of service that the engine will probably do before this request may enter."""
        ...

    def hold_s(self, work: Work) -> float:
        """Return how long it will wait for anything but work that is before it."""
        ...

    def share_of(self, work: Work) -> float | None:
        """Return the part of the engine that is its tenant's now; None where nobody has one."""
        ...

    def ahead_without_own(self, work: Work) -> float | None:
        """Return what would be before it if nothing of its tenant waited; None where it would find no room even so."""
        ...

    def until_room(self, work: Work) -> float:
        """Return the tokens of service that must probably be done before a refused request would be let wait."""
        ...

    def push(self, work: Work) -> Sequence[Work] | None:
        """Let it wait, and return whom that evicts; None, and nothing changes, where it is full for this request."""
        ...

    def next(self, now: float) -> Work | None:
        """Take whoever may enter the engine at second ``now``; the caller gives it a seat before it asks again."""
        ...

    def remove(self, request: RequestId) -> None:
        """A request left while it waited."""
        ...

    def correct(self, work: Work, delta_cost: float) -> None:
        """Charge (or give back, if negative) what a request in the engine really cost beyond its expectation."""
        ...

    def finish(self, work: Work, now: float) -> None:
        """A request has left the engine, after its last correction and its seat."""
        ...


@dataclass(slots=True)
class _Entry:
    """A request at the door or inside, and whom to call."""

    work: Work
    admit: Callable[[], None]
    reject: Callable[[Shed, float], None]
    prompt_left: int
    output_tokens: int = 0
    entered_at: float | None = None
    """None while it waits."""


def _without_a_timer(_: float) -> None:
    """Nobody asks again."""


@dataclass(slots=True)
class Door:
    """Single-threaded: every call runs to its end before the next."""

    order: Order
    seats: Seats
    pace: Pace
    stay: Stay = field(default_factory=Stay)
    prefill: Prefill = field(default_factory=Prefill)
    returns: Returns = field(default_factory=Returns)
    before: Before = field(default_factory=Before)
    slots: AdapterSlots | None = None
    """The engine's, where it has adapters."""
    look_later: Callable[[float], None] = _without_a_timer
    """Have ``look`` called after so many seconds: its owner's timer. Without one it goes on at the next event."""
    _look_at: float = math.inf
    _entries: dict[RequestId, _Entry] = field(default_factory=dict)

    def arrive(self, work: Work, now: float, admit: Callable[[], None], reject: Callable[[Shed, float], None]) -> None:
        """Take a request: exactly one of the callbacks is called, now or later, unless it leaves before."""
        self.order.seen(work, now)
        expected_s = self.expected_wait_s(work)
        line_s = 0.0 if not expected_s or self.returns.takes(work, now) else self._line_s(work, now)
        late_s = self._late_s(work, now, expected_s, line_s)
        too_long_s = late_s or self._too_long_s(work, now, expected_s, line_s)
        evicted = self.order.push(work) if not too_long_s else None
        if evicted is None:
            wait_s = too_long_s or self.order.until_room(work) / self.pace.per_s + line_s
            reject(Shed.LATE if late_s else Shed.FULL, self._retry_s(work, wait_s, now))
            return
        for victim in evicted:
            self._send_away(victim.request, Shed.EVICTED, self._again_s(victim, now))
        self.before.came(work)
        self._entries[work.request] = _Entry(work, admit, reject, work.prompt_tokens)
        self._open(now)

    def give_up(self, request: RequestId, now: float) -> float:
        """The request has waited as long as it may; return after how many seconds it should come back."""
        work = self._entries[request].work
        again_s = self._again_s(work, now)
        self.leave(request, now)
        return again_s

    def close(self) -> None:
        """Reject everybody who still waits: this worker is going, another one may serve them."""
        for entry in [entry for entry in self._entries.values() if entry.entered_at is None]:
            self.order.remove(entry.work.request)
            self._send_away(entry.work.request, Shed.CLOSING, 0.0)

    def turn_away(self, adapter: VersionId, now: float, for_s: float = 0.0) -> None:
        """Reject everybody who waits for an adapter that isn't served here for so long."""
        for work in [one.work for one in self._entries.values() if one.entered_at is None]:
            if work.adapter == adapter:
                self.order.remove(work.request)
                self._send_away(work.request, Shed.ADAPTER, max(LEAST_RETRY_S, for_s))
        self._open(now)

    def expected_wait_s(self, work: Work) -> float:
        """Return how long the request would wait: the work before it at the measured pace, or for its adapter."""
        return max(self.order.ahead_of(work) / self.pace.per_s, self.order.hold_s(work))

    def late_s(self, work: Work, now: float) -> float:
        """Return by how much the request would miss its deadline; 0 where it may try.

        Who can enter at once may always try. Who would have to wait must also have the time to run: else it would take
        the place of another one that could still be in time.
        """
        return self._late_s(work, now, self.expected_wait_s(work))

    def _late_s(self, work: Work, now: float, wait_s: float, line_s: float = 0.0) -> float:
        if not work.deadline_at:
            return 0.0
        run_s = STAY_HEADROOM * self.stay.of(work.cost)
        return _over_s(work.deadline_at - now - run_s, wait_s, line_s)

    def _line_s(self, work: Work, now: float) -> float:
        """Return how long those of its tenant take who were told to come back before."""
        return self.returns.before(work, self.order.share_of(work) or 1.0, now) / self.pace.per_s

    def _too_long_s(self, work: Work, now: float, wait_s: float, line_s: float) -> float:
        """Return by how much the request would probably wait longer than it may; 0 where it may wait.

        Its adapter's load is no queue: the work before it goes on meanwhile.
        """
        if not work.start_by:
            return 0.0
        return _over_s(work.start_by - now, max(0.0, wait_s - self._load_s(work, now)), line_s)

    def _load_s(self, work: Work, now: float) -> float:
        if self.slots is None or not self.waits_for_load(work):
            return 0.0
        return self.slots.residents.wait_s(work.adapter, now)

    def waits_for_load(self, work: Work) -> bool:
        """Tell whether the adapter that it asks for has yet to be loaded, or checked."""
        return self.slots is not None and bool(work.adapter) and not self.slots.residents.has(work.adapter)

    def is_for_load(self, work: Work, now: float) -> bool:
        """Tell whether its adapter's load takes longer than the work before it."""
        return self.waits_for_load(work) and self.order.ahead_of(work) / self.pace.per_s <= self._load_s(work, now)

    def held_s(self, work: Work, since: float, now: float) -> float:
        """Return how long of the time since then it has waited for its adapter's load: that is no part of a queue."""
        if self.slots is None or not work.adapter:
            return 0.0
        return self.slots.residents.held_s(work.adapter, since, now)

    def is_own(self, work: Work, now: float) -> bool:
        """Tell whether a request is refused for what its own tenant has waiting, not for what everybody has."""
        ahead = self.order.ahead_without_own(work)
        if ahead is None:
            return False
        wait_s, line_s = max(ahead / self.pace.per_s, self.order.hold_s(work)), self._line_s(work, now)
        return not self._late_s(work, now, wait_s, line_s) and not self._too_long_s(work, now, wait_s, line_s)

    def waits_for_own(self, work: Work) -> bool:
        """Tell whether a request that waits does so for its own tenant: where tenants take turns inside the engine it
        would have come in otherwise.
        """
        seats, share = self.seats, self.order.share_of(work)
        return seats.size.takes_turns and bool(share) and seats.held_by(work.tenant).slots > 0

    def progressed(self, request: RequestId, tokens: int, now: float) -> None:
        """Some output tokens came (the first ones also mean that the prompt is done)."""
        entry = self._entries[request]
        done = PROMPT_WEIGHT * entry.prompt_left + OUTPUT_WEIGHT * tokens
        entry.output_tokens += tokens
        self.pace.did(done, now, full=len(self.order) > 0)
        over = entry.output_tokens - entry.work.expected_output_tokens
        if over > 0:
            self.order.correct(entry.work, OUTPUT_WEIGHT * min(over, tokens))
            self.seats.grow(entry.work, entry.output_tokens)
        if entry.prompt_left and entry.entered_at is not None:
            self.prefill.learn(
                min(entry.prompt_left, entry.work.prompt_at_once), now - entry.entered_at, exact=tokens <= FIRST_TOKENS
            )
            entry.prompt_left = 0
            self.presume_prefilled(request, now)

    def counted(self, request: RequestId, prompt_tokens: int) -> None:
        """The engine has read the prompt: what was believed too much of it is given back, charge and blocks."""
        entry = self._entries.get(request)
        if entry is None or entry.entered_at is None or prompt_tokens >= entry.work.prompt_tokens:
            return
        self.order.correct(entry.work, -PROMPT_WEIGHT * (entry.work.prompt_tokens - prompt_tokens))
        entry.work = replace(entry.work, prompt_tokens=prompt_tokens)
        entry.prompt_left = min(entry.prompt_left, prompt_tokens)
        self.seats.recount(entry.work, entry.output_tokens)

    def presume_prefilled(self, request: RequestId, now: float) -> None:
        """The request's prompt is through, or probably is: an answer that comes as a whole shows no first token."""
        entry = self._entries.get(request)
        if entry is not None and entry.entered_at is not None:
            self.seats.prefilled(request)
            self._open(now)

    def look(self, now: float) -> None:
        """Nothing has happened, but the time has come to ask again who may enter."""
        self._look_at = math.inf
        self._open(now)

    def leave(self, request: RequestId, now: float) -> None:
        """The request ended, however; what it had booked and not used is given back. Twice is harmless."""
        entry = self._entries.pop(request, None)
        if entry is None:
            return
        self.before.gone(entry.work)
        if entry.entered_at is None:
            self.order.remove(request)
            return
        self.stay.learn(now - entry.entered_at, entry.work.cost)
        self.returns.learn(entry.work, entry.output_tokens)
        self.seats.leave(request)
        unused = entry.work.expected_output_tokens - entry.output_tokens
        if unused > 0:
            self.order.correct(entry.work, -OUTPUT_WEIGHT * unused)
        self.order.finish(entry.work, now)
        if not len(self.seats):
            self.pace.idle(now)
        self._open(now)

    def _open(self, now: float) -> None:
        """Admit whoever is next, as long as somebody may enter."""
        while (work := self.order.next(now)) is not None:
            if self._is_hopeless(work, now):
                self._refuse_late(work, now)
                continue
            entry = self._entries[work.request]
            entry.entered_at = now
            self.seats.take(work)
            self.pace.busy(now)
            entry.admit()
            self.before.entered(work)
        look_at = self.order.look_at
        if look_at is not None and look_at < self._look_at:
            self._look_at = look_at
            self.look_later(max(LEAST_LOOK_S, look_at - now))

    def _send_away(self, request: RequestId, why: Shed, wait_s: float) -> None:
        entry = self._entries.pop(request)
        entry.reject(why, wait_s)
        self.before.gone(entry.work)

    def _is_hopeless(self, work: Work, now: float) -> bool:
        """Tell whether the request waited too long to be done in time, and would only keep others from it."""
        if not work.deadline_at or not len(self.order):
            return False
        return now + STAY_HEADROOM * self.stay.of(work.cost) > work.deadline_at

    def _refuse_late(self, work: Work, now: float) -> None:
        """Reject whoever is next too late; it gets back what it was charged."""
        self.order.correct(work, -work.cost)
        self.order.finish(work, now)
        self._send_away(work.request, Shed.LATE, self._again_s(work, now))

    def _again_s(self, work: Work, now: float) -> float:
        """Return when to come back, for who waited or was about to: when those before it are worked off."""
        return self._retry_s(work, self.expected_wait_s(work) + self._line_s(work, now), now)

    def _retry_s(self, work: Work, wait_s: float, now: float) -> float:
        """Return when to come back: what is in the way is worked off by then, also for those who come meanwhile."""
        retry_s = max(LEAST_RETRY_S, RETRY_HEADROOM * wait_s)
        if retry_s <= MOST_RETRY_S:
            self.returns.expect(work, now + retry_s, now)
        return min(MOST_RETRY_S, retry_s)


def _over_s(may_s: float, wait_s: float, line_s: float) -> float:
    """Return in how many seconds a request would no longer wait longer than it may; 0 where it may wait now.

    Where others are to come back whoever comes new may wait for a part of its time alone: there is room for them, and
    the engine always has work, also where nobody comes.
    """
    may_wait_s = may_s / WAIT_HEADROOM
    if not wait_s or wait_s <= (NEW_PART if line_s else 1.0) * may_wait_s:
        return 0.0
    return max(LEAST_LOOK_S, wait_s + line_s - max(0.0, may_wait_s))
