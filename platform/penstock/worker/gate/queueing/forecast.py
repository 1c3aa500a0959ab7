"""A request's expected wait, whether it is too long, and the time at which a refused caller should retry. Pure.

Expected wait = work before it ÷ the pace that the step model predicts and the engine corrects, or the time until its
adapter is loaded; in the queue's seconds and tokens of service.

Trade-off: an O(1) estimate with headroom for later requests that go first, instead of a simulation.
"""

from penstock.domain.models.steps import StepModel
from penstock.domain.outage import LONGEST_WAIT_S, SHORTEST_WAIT_S
from penstock.worker.gate.queueing.adapter_slots import AdapterSlots
from penstock.worker.gate.queueing.constants import (
    HEADROOM,
    NEW_PART,
    STAY_HEADROOM,
)
from penstock.worker.gate.queueing.estimates import ServiceRate, Stay
from penstock.worker.gate.queueing.fair_queue import FairQueue
from penstock.worker.gate.queueing.may_enter import MayEnter
from penstock.worker.gate.queueing.retries import Retries
from penstock.worker.gate.queueing.step_forecast import StepForecast
from penstock.worker.gate.queueing.work import Fit, Work


class Forecast:
    def __init__(self, fair: FairQueue, rules: MayEnter, pace: ServiceRate, adapters: AdapterSlots | None) -> None:
        self._fair, self._rules, self._slots, self._adapters = fair, rules, rules.slots, adapters
        self.pace, self.stay, self.retries = pace, Stay(), Retries()
        self._steps: StepForecast | None = None

    def learn(self, model: StepModel) -> None:
        self._steps = StepForecast(model, self._slots, self.pace.per_s)
        self.pace.predict(self._steps.pace_per_s)

    def reading_s(self, work: Work) -> float | None:
        """Seconds from entry to first token; None before a model was learned."""
        return None if self._steps is None else self._steps.reading_s(work)

    def wait_s(self, work: Work, now: float) -> float:
        return max(self._ahead_of(work) / self.pace.per_s, self._adapter_s(work, now))

    def _ahead_of(self, work: Work) -> float:
        """Return the work before its turn and a free slot; 0 if it could enter now.

        On its tenant's reserved slot only its own work is before it. Beyond its tenant's part of the KV blocks it waits
        for its own work, which gets the part of the pace that its slots are of all.
        """
        rules, fair = self._rules, self._fair
        if rules.enters_past_full(work) or (not len(fair) and rules.fits(work) is Fit.YES):
            return 0.0
        if rules.reserved.covers(work):
            return fair.waiting_of(work) + self._slots.mean_cost
        ahead = fair.ahead_of(work) + self._slots.mean_cost
        if not rules.is_over_kv(work):
            return ahead
        others = self._slots.held.slots / self._slots.held_by(work.tenant).slots
        return max(ahead, others * (fair.waiting_of(work) + self._slots.mean_cost))

    def _adapter_s(self, work: Work, now: float) -> float:
        if self._adapters is None or not work.adapter:
            return 0.0
        return self._adapters.wait_s(work.adapter, now, self.stay.of(work.cost))

    # -- too long ----------------------------------------------------------------------------

    def retries_s(self, work: Work, now: float) -> float:
        return self.retries.before(work, self._rules.active.share_of(work) or 1.0, now) / self.pace.per_s

    def late_s(self, work: Work, now: float, wait_s: float | None = None, retries_s: float = 0.0) -> float | None:
        """Past the deadline; None if it may wait. A request that can enter at once may always try."""
        if not work.deadline_at:
            return None
        run_s = STAY_HEADROOM * self.stay.of(work.cost)
        wait_s = self.wait_s(work, now) if wait_s is None else wait_s
        return _over_s(work.deadline_at - now - run_s, wait_s, retries_s)

    def timed_out_s(self, work: Work, now: float, wait_s: float, retries_s: float) -> float | None:
        """Beyond the queue timeout, which pauses while its adapter loads."""
        if not work.start_by:
            return None
        return _over_s(work.start_by - now, max(0.0, wait_s - self._load_s(work, now)), retries_s)

    def is_hopeless(self, work: Work, now: float) -> bool:
        """True if too late for its deadline, while others still could meet theirs."""
        if not work.deadline_at or not len(self._fair):
            return False
        return now + STAY_HEADROOM * self.stay.of(work.cost) > work.deadline_at

    # -- because of what ---------------------------------------------------------------------

    def is_own(self, work: Work, now: float) -> bool:
        """True if it would be in time without its tenant's waiting requests and expected retries."""
        ahead = self._fair.waiting_without(work)
        if ahead is None:
            return False
        wait_s = max((ahead + self._slots.mean_cost) / self.pace.per_s, self._adapter_s(work, now))
        return self.late_s(work, now, wait_s) is self.timed_out_s(work, now, wait_s, 0.0) is None

    def waits_for_own(self, work: Work) -> bool:
        """True if its own tenant's running requests hold its part of the KV blocks, or if this engine shares time."""
        slots = self._slots
        return self._rules.is_over_kv(work) or (
            slots.size.time_shares and bool(self._rules.active.share_of(work)) and slots.held_by(work.tenant).slots > 0
        )

    def waits_for_load(self, work: Work) -> bool:
        return self._adapters is not None and bool(work.adapter) and not self._adapters.residents.has(work.adapter)

    def is_for_load(self, work: Work, now: float) -> bool:
        return self.waits_for_load(work) and self._ahead_of(work) / self.pace.per_s <= self._load_s(work, now)

    def held_s(self, work: Work, since: float, now: float) -> float:
        """Seconds since ``since`` spent on its adapter's load and not in a queue."""
        if self._adapters is None or not work.adapter:
            return 0.0
        return self._adapters.residents.held_s(work.adapter, since, now)

    def _load_s(self, work: Work, now: float) -> float:
        if self._adapters is None or not self.waits_for_load(work):
            return 0.0
        return self._adapters.residents.wait_s(work.adapter, now)

    # -- when to come back -------------------------------------------------------------------

    def room_s(self, work: Work) -> float:
        return self._fair.until_room(work) / self.pace.per_s

    def again_s(self, work: Work, now: float) -> float:
        return self.retry_s(work, self.wait_s(work, now) + self.retries_s(work, now), now)

    def retry_s(self, work: Work, wait_s: float, now: float) -> float:
        """Reserve a place for the retry, too."""
        retry_s = max(SHORTEST_WAIT_S, HEADROOM * wait_s)
        if retry_s <= LONGEST_WAIT_S:
            self.retries.expect(work, now + retry_s, now)
        return min(LONGEST_WAIT_S, retry_s)


def _over_s(may_s: float, wait_s: float, retries_s: float) -> float | None:
    """Return None if the request may wait now.

    While retries are expected, it may wait for only part of its time: that leaves room for them, and keeps the engine
    busy if none arrives.
    """
    may_wait_s = may_s / HEADROOM
    if not wait_s or wait_s <= (NEW_PART if retries_s else 1.0) * may_wait_s:
        return None
    return max(0.0, wait_s + retries_s - max(0.0, may_wait_s))
