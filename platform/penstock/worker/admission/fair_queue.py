"""Who is next: hierarchical weighted fair queueing in tokens of service, in front of one engine.

Classes share the engine by class weight, tenants inside a class by tenant weight; each level is start-time fair
queueing (Goyal, Vin, Cheng, SIGCOMM'96) over the token costs of VTC (Sheng et al., OSDI'24). A request is charged
its expected cost when it is dispatched and corrected as its tokens come. Whoever was idle resumes at the present
virtual time, so idling earns no credit. The lowest class keeps its share, which is the starvation bound.

Trade-off: strict priority would give interactive work lower latency under overload, but starves batch work for
as long as the overload lasts. It must not know HTTP, the engine or the clock.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from penstock.domain.ids import RequestId, TenantId
from penstock.domain.tenant import Priority
from penstock.worker.admission.cost import Fit, Work

CLASS_WEIGHT = {Priority.INTERACTIVE: 16.0, Priority.STANDARD: 4.0, Priority.BATCH: 1.0}
"""Shares of the engine between classes that are all backlogged: 76 %, 19 %, 5 %."""

MAX_BYPASSES = 8
"""How often smaller work may overtake a head that does not fit yet, before everybody waits for it."""

SWEEP_AT = 256
"""Every so many known tenants of a class, idle ones are forgotten. A power of two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much may wait: per tenant and in all, in requests and in tokens of service."""

    tenant_requests: int = 256
    tenant_cost: float = 400_000.0
    total_requests: int = 2048
    total_cost: float = 3_000_000.0


@dataclass(slots=True)
class _Flow:
    """One tenant inside one class: its queue and its virtual time (service received / weight)."""

    tenant: TenantId
    weight: float
    virtual: float = 0.0
    cost: float = 0.0
    waiting: int = 0
    running: int = 0
    bypassed: int = 0
    queue: deque[Work] = field(default_factory=deque)


@dataclass(slots=True)
class _Class:
    """One priority class: its tenants, its virtual time among the classes, and that of its own flows."""

    weight: float
    virtual: float = 0.0
    now: float = 0.0
    last: float = 0.0
    waiting: int = 0
    cost: float = 0.0
    running: int = 0
    held: bool = False
    flows: dict[TenantId, _Flow] = field(default_factory=dict)
    heap: list[tuple[float, TenantId]] = field(default_factory=list)


class FairQueue:
    """The queue of one worker. Every operation is O(log tenants); nothing here waits."""

    def __init__(self, bounds: Bounds | None = None) -> None:
        """Begin empty."""
        self.bounds = bounds or Bounds()
        self._classes = {priority: _Class(weight=weight) for priority, weight in CLASS_WEIGHT.items()}
        self._now = 0.0
        self._waiting: dict[RequestId, Work] = {}
        self._cost = 0.0

    def __len__(self) -> int:
        """Requests waiting."""
        return len(self._waiting)

    @property
    def waiting_cost(self) -> float:
        """Tokens of service waiting."""
        return self._cost

    def tenants(self) -> Iterable[tuple[Priority, TenantId, int, float]]:
        """Yield class, tenant, waiting requests and their cost, for every tenant that waits."""
        for priority, klass in self._classes.items():
            for flow in klass.flows.values():
                if flow.waiting:
                    yield priority, flow.tenant, flow.waiting, flow.cost

    def make_room(self, work: Work) -> list[Work] | None:
        """Take out whom this request evicts (nobody, where there is room); None where nothing would help.

        Its own tenant's bounds make it wait for nobody else: only where the whole is full, others give way.
        """
        flow = self._classes[work.priority].flows.get(work.tenant)
        if flow is not None and not self._has_room_of_its_own(flow, work):
            return None
        if not self._has_room_in_all(work, self._below(work.priority)):
            return None
        evicted: list[Work] = []
        while not self._has_room_in_all(work) and (victim := self.newest_below(work.priority)) is not None:
            self.remove(victim.request)
            evicted.append(victim)
        return evicted

    def _has_room_of_its_own(self, flow: _Flow, work: Work) -> bool:
        bounds = self.bounds
        return flow.waiting < bounds.tenant_requests and flow.cost + work.cost <= bounds.tenant_cost

    def _has_room_in_all(self, work: Work, without: tuple[int, float] = (0, 0.0)) -> bool:
        requests, cost = len(self) - without[0], self._cost - without[1]
        return requests < self.bounds.total_requests and cost + work.cost <= self.bounds.total_cost

    def _below(self, priority: Priority) -> tuple[int, float]:
        """Return how many requests of worse classes wait, and their cost."""
        order = list(CLASS_WEIGHT)
        lower = [self._classes[p] for p in order[order.index(priority) + 1 :]]
        return sum(k.waiting for k in lower), sum(k.cost for k in lower)

    def push(self, work: Work) -> None:
        """Let a request wait; the caller has asked ``make_room``."""
        klass = self._classes[work.priority]
        flow = klass.flows.get(work.tenant)
        if flow is None:
            self._sweep(klass)
            flow = klass.flows[work.tenant] = _Flow(work.tenant, work.weight)
        flow.weight = work.weight
        if not klass.waiting:
            klass.virtual = max(klass.virtual, self._now)
            klass.now = max(klass.now, klass.last)
        if not flow.waiting:
            flow.virtual = max(flow.virtual, klass.now)
            heapq.heappush(klass.heap, (flow.virtual, work.tenant))
        if len(flow.queue) > 2 * flow.waiting + 16:
            flow.queue = deque(w for w in flow.queue if w.request in self._waiting)
        flow.queue.append(work)
        flow.cost += work.cost
        flow.waiting += 1
        klass.waiting += 1
        klass.cost += work.cost
        self._waiting[work.request] = work
        self._cost += work.cost

    def remove(self, request: RequestId) -> Work | None:
        """Take a request out that left, expired or is evicted; None where it does not wait."""
        work = self._waiting.pop(request, None)
        if work is not None:
            klass = self._classes[work.priority]
            self._forget(klass, klass.flows[work.tenant], work)
            self._end_busy_period(klass)
        return work

    def finish(self, work: Work) -> None:
        """Tell that a dispatched request has left the engine, after its last correction."""
        klass = self._classes[work.priority]
        klass.flows[work.tenant].running -= 1
        klass.running -= 1
        self._end_busy_period(klass)

    def pop(self, fits: Callable[[Work], Fit]) -> Work | None:
        """Take the next request that ``fits`` the engine and charge its flow; None where nothing may start now."""
        for klass in sorted((k for k in self._classes.values() if k.waiting), key=lambda k: k.virtual):
            flow = self._next_flow(klass, fits)
            if flow is None:
                if klass.held:
                    return None
                continue
            return self._dispatch(klass, flow)
        return None

    def correct(self, work: Work, delta_cost: float) -> None:
        """Charge (or give back, if negative) what a dispatched request really cost beyond its expectation."""
        klass = self._classes[work.priority]
        klass.virtual += delta_cost / klass.weight
        flow = klass.flows[work.tenant]
        flow.virtual += delta_cost / flow.weight
        if flow.waiting:
            heapq.heappush(klass.heap, (flow.virtual, flow.tenant))

    def newest_below(self, priority: Priority) -> Work | None:
        """Return whom to evict for a request of this class: lowest class first, there the longest queue's newest."""
        order = list(CLASS_WEIGHT)
        for lower in reversed(order[order.index(priority) + 1 :]):
            flows = [f for f in self._classes[lower].flows.values() if f.waiting]
            if flows:
                longest = max(flows, key=lambda f: f.cost / f.weight)
                return next(w for w in reversed(longest.queue) if w.request in self._waiting)
        return None

    def share_of(self, work: Work) -> float:
        """Return the share of the engine that this request's tenant has now, counting itself as waiting."""
        busy = [k for p, k in self._classes.items() if k.waiting or p is work.priority]
        klass = self._classes[work.priority]
        others = sum(f.weight for f in klass.flows.values() if f.waiting and f.tenant != work.tenant)
        return klass.weight / sum(k.weight for k in busy) * work.weight / (work.weight + others)

    def ahead_of(self, work: Work) -> float:
        """Return the waiting cost of the request's own tenant, which runs before it."""
        flow = self._classes[work.priority].flows.get(work.tenant)
        return flow.cost if flow is not None else 0.0

    def _next_flow(self, klass: _Class, fits: Callable[[Work], Fit]) -> _Flow | None:
        """Return the least served flow whose head fits.

        Heads for which there is no room are overtaken a bounded number of times; heads beyond their share freely.
        """
        passed: list[_Flow] = []
        crowded: list[_Flow] = []
        chosen: _Flow | None = None
        klass.held = False
        for flow in self._least_served_first(klass):
            fit = fits(self._head(flow))
            if fit is Fit.YES:
                chosen = flow
                break
            passed.append(flow)
            if fit is Fit.NO_ROOM:
                crowded.append(flow)
                klass.held = flow.bypassed >= MAX_BYPASSES
                if klass.held:
                    break
        for flow in passed:
            heapq.heappush(klass.heap, (flow.virtual, flow.tenant))
        for flow in crowded if chosen else ():
            flow.bypassed += 1
        return chosen

    def _least_served_first(self, klass: _Class) -> Iterator[_Flow]:
        """Take waiting flows off the heap, each once; entries that corrections have outdated are dropped."""
        last: _Flow | None = None
        while klass.heap:
            virtual, tenant = heapq.heappop(klass.heap)
            flow = klass.flows.get(tenant)
            if flow is None or flow is last or not flow.waiting or virtual != flow.virtual:
                continue
            last = flow
            yield flow

    def _head(self, flow: _Flow) -> Work:
        while flow.queue[0].request not in self._waiting:
            flow.queue.popleft()
        return flow.queue[0]

    def _dispatch(self, klass: _Class, flow: _Flow) -> Work:
        work = self._head(flow)
        flow.queue.popleft()
        flow.bypassed = 0
        flow.running += 1
        klass.running += 1
        del self._waiting[work.request]
        self._now = max(self._now, klass.virtual)
        klass.now = max(klass.now, flow.virtual)
        klass.virtual += work.cost / klass.weight
        flow.virtual += work.cost / flow.weight
        klass.last = flow.virtual
        self._forget(klass, flow, work)
        if flow.waiting:
            heapq.heappush(klass.heap, (flow.virtual, flow.tenant))
        return work

    def _forget(self, klass: _Class, flow: _Flow, work: Work) -> None:
        """Take a request that waits no longer out of the sums; exact zeros stop float drift."""
        klass.waiting -= 1
        flow.waiting -= 1
        flow.cost = flow.cost - work.cost if flow.waiting else 0.0
        klass.cost = klass.cost - work.cost if klass.waiting else 0.0
        self._cost = self._cost - work.cost if self._waiting else 0.0
        if not flow.waiting:
            flow.queue.clear()

    def _end_busy_period(self, klass: _Class) -> None:
        """Start from zero when a class (or the whole worker) has nothing left: nobody is owed anything."""
        if klass.waiting or klass.running:
            return
        klass.flows.clear()
        klass.heap.clear()
        klass.now = klass.last = 0.0
        if not any(k.waiting or k.running for k in self._classes.values()):
            self._now = 0.0
            for each in self._classes.values():
                each.virtual = 0.0

    def _sweep(self, klass: _Class) -> None:
        """Forget idle tenants that owe nothing, now and then, so that memory follows the busy ones."""
        if len(klass.flows) < SWEEP_AT or len(klass.flows) & (SWEEP_AT - 1):
            return
        for flow in [f for f in klass.flows.values() if not f.waiting and not f.running and f.virtual <= klass.now]:
            del klass.flows[flow.tenant]
