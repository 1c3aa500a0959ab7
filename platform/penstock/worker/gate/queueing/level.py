"""One priority level of the fair queue: its tenants, by start-time fair queueing.

The flow with the least virtual time is next; a flow with nothing inside may be ahead by a request. Of equal flows the
one with less inside is first, then the older.
"""

import heapq
from collections.abc import Callable, Iterator

from penstock.domain.ids import TenantId
from penstock.worker.gate.queueing.constants import LOOK_AHEAD, MAX_BYPASSES, MOST_KNOWN
from penstock.worker.gate.queueing.flow import Flow, LongestFlows, Place
from penstock.worker.gate.queueing.work import Fit, Work


class PriorityLevel:
    def __init__(self, weight: float) -> None:
        self.weight = weight
        self.waiting, self.cost, self.running = 0, 0.0, 0
        self.held = False
        """True where the last choice ended at a head that all others now wait for."""
        self.is_bound = False
        """Whether the last choice found only flows that their own parts bind."""
        self.flows: dict[TenantId, Flow] = {}
        self._now = self._last = 0.0
        self._busy, self._busy_weight, self._fresh = 0, 0.0, 0.0
        self._arrivals = 0
        self._next: list[Place] = []
        self._crowd = LongestFlows()
        self._crowded: list[Flow] = []

    def push(self, work: Work, share: float = 0.0) -> None:
        """``share`` is its tenant's share of the slots. An idle flow resumes at the present virtual time: idling earns
        nothing.
        """
        flow = self.flows.get(work.tenant)
        if flow is None:
            self._sweep()
            flow = self.flows[work.tenant] = Flow(work.tenant, work.weight)
        self.share(flow, share)
        if not self.waiting:
            self._now = max(self._now, self._last)
        if flow.queue:
            self._busy_weight += work.weight - flow.weight
        else:
            self._wake(flow, work)
        flow.weight = work.weight
        flow.push(work)
        self.waiting += 1
        self.cost += work.cost
        self._crowd.note(flow, self.flows, self._busy)

    def share(self, flow: Flow, share: float) -> None:
        before, flow.share = flow.place, share
        if flow.place != before:
            self._queue_up(flow)

    def take_out(self, work: Work) -> Flow:
        """Exact zeros in the sums prevent float drift."""
        flow = self.flows[work.tenant]
        flow.take_out(work)
        self.waiting -= 1
        self.cost = self.cost - work.cost if self.waiting else 0.0
        self._age(flow)
        if not flow.queue:
            self._busy -= 1
            self._busy_weight = self._busy_weight - flow.weight if self._busy else 0.0
        return flow

    def choose(self, fits: Callable[[Work], Fit], pick: Callable[[Flow], Work]) -> Work | None:
        """The first fitting request of the least served flow; advances the virtual time to it. First requests without
        room are overtaken a bounded number of times, those beyond their share or part freely. One that will fit in a
        step or two is never overtaken.
        """
        passed: list[Flow] = []
        crowded: list[Flow] = []
        chosen, first = None, None
        self.held = False
        for flow in self._least_served_first():
            head = pick(flow)
            fit = fits(head)
            if fit is Fit.YES:
                chosen, first = head, first or flow
                break
            first = first or self._kept_back(flow, fit)
            passed.append(flow)
            if fit is Fit.NO_ROOM:
                crowded.append(flow)
                self.held = flow.bypassed >= MAX_BYPASSES
            self.held = self.held or fit is Fit.SOON
            if self.held or fit is Fit.CLOSED or len(passed) >= LOOK_AHEAD:
                break
        if chosen is not None and first is not None:
            self._now = max(self._now, first.rank)
        for flow in passed:
            heapq.heappush(self._next, flow.place)
        self._crowded, self.is_bound = crowded, bool(passed) and chosen is None and first is None
        if chosen is not None:
            self.overtaken()
        return chosen

    def _kept_back(self, flow: Flow, fit: Fit) -> Flow | None:
        """Return None if the flow's own part binds it: it counts as idle, which earns nothing."""
        if fit is not Fit.OVER_KV:
            return flow
        flow.virtual = max(flow.virtual, self._now)
        return None

    def overtaken(self) -> None:
        for flow in self._crowded:
            flow.bypassed += 1

    def dispatch(self, work: Work) -> Work:
        flow = self.flows[work.tenant]
        flow.enter(work)
        self.running += 1
        self._last = max(self._last, flow.rank)
        self.take_out(work)
        self._queue_up(flow)
        return work

    def correct(self, work: Work, delta_cost: float) -> None:
        flow = self.flows[work.tenant]
        flow.virtual += delta_cost / flow.weight
        self._queue_up(flow)

    def finish(self, work: Work) -> None:
        flow = self.flows[work.tenant]
        flow.leave(work)
        self.running -= 1
        self._queue_up(flow)

    def is_owed(self, work: Work) -> bool:
        """Ahead of others by one request at most, not counting running ones."""
        flow = self.flows.get(work.tenant)
        if flow is None:
            return True
        return flow.virtual - (flow.inside if flow.running else flow.last) <= self._now + work.cost / work.weight

    def would_go_first(self, tenant: TenantId, work: Work) -> bool:
        flow = self.flows.get(tenant)
        return flow is None or max(flow.virtual, self._now) - flow.last <= self.flows[work.tenant].rank

    def newest_of_the_longest(self) -> Work:
        return self._crowd.longest(self.flows).newest

    def ahead_of(self, work: Work) -> float:
        flow = self.flows.get(work.tenant)
        own = flow.before(work) if flow is not None else 0.0
        fresh = self._fresh - (flow.fresh if flow is not None else 0.0)
        others = self._busy_weight - (flow.weight if flow is not None and flow.queue else 0.0)
        return min(self.cost, own + fresh + own * others / work.weight)

    def clear(self) -> None:
        self.flows.clear()
        self._next.clear()
        self._crowd.clear()
        self._now = self._last = 0.0

    def _wake(self, flow: Flow, work: Work) -> None:
        flow.virtual = max(flow.virtual, self._now)
        self._arrivals += 1
        flow.arrival, flow.fresh = self._arrivals, work.cost
        self._fresh += work.cost
        self._busy += 1
        self._busy_weight += work.weight
        heapq.heappush(self._next, flow.place)

    def _age(self, flow: Flow) -> None:
        """Reset ``fresh`` once the flow's first request after idling no longer waits."""
        self._fresh -= flow.fresh
        flow.fresh = 0.0
        if not self.waiting:
            self._fresh = 0.0

    def _queue_up(self, flow: Flow) -> None:
        """An old entry is recognised by its outdated rank."""
        if not flow.queue:
            return
        if len(self._next) > 2 * self._busy + MOST_KNOWN:
            self._next = [f.place for f in self.flows.values() if f.queue and f is not flow]
            heapq.heapify(self._next)
        heapq.heappush(self._next, flow.place)

    def _least_served_first(self) -> Iterator[Flow]:
        last: Flow | None = None
        while self._next:
            place = heapq.heappop(self._next)
            flow = self.flows.get(place[-1])
            if flow is None or flow is last or not flow.queue or place != flow.place:
                continue
            last = flow
            yield flow

    def _sweep(self) -> None:
        if len(self.flows) < MOST_KNOWN or len(self.flows) & (MOST_KNOWN - 1):
            return
        for flow in [f for f in self.flows.values() if not f.queue and not f.running and f.virtual <= self._now]:
            del self.flows[flow.tenant]
