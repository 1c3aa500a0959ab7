"""How long a request would wait, whether that is too long, and when a refused caller is to come back.

Expected wait = work before it ÷ measured pace, or the time until its adapter is there. Pure; times are the queue's
seconds, work is in tokens of service.

Trade-off: an estimate in O(1) for each arrival, with headroom for what comes later and goes first, in place of a
simulation of the queue.
"""

from penstock.worker.gate.queueing.adapter_slots import AdapterSlots
from penstock.worker.gate.queueing.constants import (
    LEAST_LOOK_S,
    LEAST_RETRY_S,
    MINUTE_S,
    NEW_PART,
    RETRY_HEADROOM,
    STAY_HEADROOM,
    WAIT_HEADROOM,
)
from penstock.worker.gate.queueing.estimates import ServiceRate, Stay
from penstock.worker.gate.queueing.fair_queue import FairQueue
from penstock.worker.gate.queueing.may_enter import MayEnter
from penstock.worker.gate.queueing.retries import Retries
from penstock.worker.gate.queueing.work import Fit, Work


class Forecast:
    """Of one queue, with what was measured of its engine."""

    def __init__(self, fair: FairQueue, rules: MayEnter, pace: ServiceRate, adapters: AdapterSlots | None) -> None:
        self._fair, self._rules, self._slots, self._adapters = fair, rules, rules.slots, adapters
        self.pace, self.stay, self.retries = pace, Stay(), Retries()

    def wait_s(self, work: Work, now: float) -> float:
        """Return how long the request would wait: for the work before it, or for its adapter."""
        return max(self._ahead_of(work) / self.pace.per_s, self._adapter_s(work, now))

    def _ahead_of(self, work: Work) -> float:
        """Return the work before it, and until a slot comes free; 0 if it could enter at once.

        If its tenant has reserved the slot, only its own work is before it.
        """
        rules, fair = self._rules, self._fair
        if rules.takes_its_turn(work) or (not len(fair) and rules.fits(work) is Fit.YES):
            return 0.0
        if rules.reserved.covers(work):
            return fair.waiting_of(work) + self._slots.mean_cost
        return fair.ahead_of(work) + self._slots.mean_cost

    def _adapter_s(self, work: Work, now: float) -> float:
        if self._adapters is None or not work.adapter:
            return 0.0
        return self._adapters.wait_s(work.adapter, now, self.stay.of(work.cost))

    # -- too long ----------------------------------------------------------------------------

    def retries_s(self, work: Work, now: float) -> float:
        """Return how long the retries take that its tenant was told to make before."""
        return self.retries.before(work, self._rules.active.share_of(work) or 1.0, now) / self.pace.per_s

    def late_s(self, work: Work, now: float, wait_s: float | None = None, retries_s: float = 0.0) -> float:
        """Return by how much the request would miss its deadline; 0 if it may try.

        A request that can enter at once may always try. One that has to wait needs the time to run as well: else it
        takes the place of another one that could still be in time.
        """
        if not work.deadline_at:
            return 0.0
        run_s = STAY_HEADROOM * self.stay.of(work.cost)
        wait_s = self.wait_s(work, now) if wait_s is None else wait_s
        return _over_s(work.deadline_at - now - run_s, wait_s, retries_s)

    def timed_out_s(self, work: Work, now: float, wait_s: float, retries_s: float) -> float:
        """Return by how much its wait would exceed its queue timeout, which stands still while its adapter loads."""
        if not work.start_by:
            return 0.0
        return _over_s(work.start_by - now, max(0.0, wait_s - self._load_s(work, now)), retries_s)

    def is_hopeless(self, work: Work, now: float) -> bool:
        """Tell whether a request has waited too long to be done in time, while others could be."""
        if not work.deadline_at or not len(self._fair):
            return False
        return now + STAY_HEADROOM * self.stay.of(work.cost) > work.deadline_at

    # -- because of what ---------------------------------------------------------------------

    def is_own(self, work: Work, now: float) -> bool:
        ahead = self._fair.waiting_without(work)
        if ahead is None:
            return False
        wait_s = max((ahead + self._slots.mean_cost) / self.pace.per_s, self._adapter_s(work, now))
        retries_s = self.retries_s(work, now)
        return not self.late_s(work, now, wait_s, retries_s) and not self.timed_out_s(work, now, wait_s, retries_s)

    def waits_for_own(self, work: Work) -> bool:
        """Tell whether a waiting request waits for its own tenant: if tenants take turns inside, it would be in."""
        slots = self._slots
        return (
            slots.size.takes_turns and bool(self._rules.active.share_of(work)) and slots.held_by(work.tenant).slots > 0
        )

    def waits_for_load(self, work: Work) -> bool:
        """Tell whether its adapter has yet to be loaded, or checked."""
        return self._adapters is not None and bool(work.adapter) and not self._adapters.residents.has(work.adapter)

    def is_for_load(self, work: Work, now: float) -> bool:
        """Tell whether its adapter's load takes longer than the work before it."""
        return self.waits_for_load(work) and self._ahead_of(work) / self.pace.per_s <= self._load_s(work, now)

    def held_s(self, work: Work, since: float, now: float) -> float:
        """Return how much of the time since then it waited for its adapter's load, which is no part of a queue."""
        if self._adapters is None or not work.adapter:
            return 0.0
        return self._adapters.residents.held_s(work.adapter, since, now)

    def _load_s(self, work: Work, now: float) -> float:
        if self._adapters is None or not self.waits_for_load(work):
            return 0.0
        return self._adapters.residents.wait_s(work.adapter, now)

    # -- when to come back -------------------------------------------------------------------

    def room_s(self, work: Work) -> float:
        """Return how long it takes until a request that found no room would find some."""
        return self._fair.until_room(work) / self.pace.per_s

    def again_s(self, work: Work, now: float) -> float:
        """Return when to come back, for a request that waited or was about to."""
        return self.retry_s(work, self.wait_s(work, now) + self.retries_s(work, now), now)

    def retry_s(self, work: Work, wait_s: float, now: float) -> float:
        """Return when to come back if what is in the way takes this long, and expect the request then."""
        retry_s = max(LEAST_RETRY_S, RETRY_HEADROOM * wait_s)
        if retry_s <= MINUTE_S:
            self.retries.expect(work, now + retry_s, now)
        return min(MINUTE_S, retry_s)


def _over_s(may_s: float, wait_s: float, retries_s: float) -> float:
    """Return in how many seconds a request would no longer wait longer than it may; 0 if it may wait now.

    While retries are expected, a new request may wait for a part of its time alone: there is room for them, and the
    engine has work even if none comes.
    """
    may_wait_s = may_s / WAIT_HEADROOM
    if not wait_s or wait_s <= (NEW_PART if retries_s else 1.0) * may_wait_s:
        return 0.0
    return max(LEAST_LOOK_S, wait_s + retries_s - max(0.0, may_wait_s))
