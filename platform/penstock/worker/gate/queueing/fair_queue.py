"""Hierarchical weighted fair queueing in tokens of service, in front of one engine.

Priority levels (one per standing) share the engine by weight, tenants in a level likewise; both by start-time fair
queueing (``fairness/turns.py``) over the token costs of VTC (Sheng et al., OSDI'24). Spare levels run only while no
other request waits.

Trade-off: strict priority would lower interactive latency under overload, but starve batch work.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from penstock.domain.ids import RequestId, TenantId
from penstock.domain.tenancy.standing import Standing
from penstock.fairness.turns import VirtualTimes
from penstock.worker.gate.queueing.constants import LEVEL_WEIGHT
from penstock.worker.gate.queueing.flow import Flow
from penstock.worker.gate.queueing.level import PriorityLevel
from penstock.worker.gate.queueing.work import Fit, Work


def in_engine(standing: Standing, weight: float) -> float:
    return LEVEL_WEIGHT[standing] * weight


def oldest(flow: Flow) -> Work:
    return flow.head


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    tenant_requests: int = 256
    tenant_cost: float = 400_000.0
    total_requests: int = 2048
    total_cost: float = 3_000_000.0


class FairQueue:
    """Every operation is O(log tenants), without waiting."""

    def __init__(self, bounds: Bounds | None = None) -> None:
        self.bounds = bounds or Bounds()
        self._levels = {one: PriorityLevel(LEVEL_WEIGHT[one]) for one in sorted(Standing, reverse=True)}
        self._shared = [level for one, level in self._levels.items() if not one.is_spare]
        self._times: VirtualTimes[Standing] = VirtualTimes()
        self._waiting: dict[RequestId, Work] = {}
        self._apart: set[RequestId] = set()
        self._cost = 0.0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def waiting_cost(self) -> float:
        return self._cost

    def waits_from(self, least: Standing) -> bool:
        return any(level.waiting for standing, level in self._levels.items() if standing >= least)

    def tenants(self) -> Iterable[tuple[Standing, TenantId, int, float]]:
        for standing, level in self._levels.items():
            for flow in level.flows.values():
                if flow.queue:
                    yield standing, flow.tenant, len(flow.queue), flow.cost

    # -- coming and going ----------------------------------------------------------------

    def make_room(self, work: Work) -> list[Work] | None:
        """Evict; None if eviction would not make room. A tenant at its own bound evicts none."""
        flow = self._levels[work.standing].flows.get(work.tenant)
        if flow is not None and not self._has_room_of_its_own(flow, work):
            return None
        below = [level for standing, level in reversed(self._levels.items()) if standing < work.standing]
        requests, cost = sum(level.waiting for level in below), sum(level.cost for level in below)
        if not self._has_room_in_all(work, len(self) - requests, self._cost - cost):
            return None
        evicted: list[Work] = []
        while not self._has_room_in_all(work, len(self), self._cost):
            victim = next(level for level in below if level.waiting).newest_of_the_longest()
            self.remove(victim.request)
            evicted.append(victim)
        return evicted

    def push(self, work: Work, share: float = 0.0) -> None:
        """Enqueue after ``make_room``; ``share`` is the tenant's share of the slots."""
        level = self._levels[work.standing]
        if not level.waiting:
            self._times.resume(work.standing)
        level.push(work, share)
        self._waiting[work.request] = work
        self._cost += work.cost

    def share(self, tenant: TenantId, share_of: Callable[[Work], float]) -> None:
        for level in self._shared:
            flow = level.flows.get(tenant)
            if flow is not None and flow.queue:
                level.share(flow, share_of(flow.head))

    def remove(self, request: RequestId) -> Work | None:
        work = self._waiting.get(request)
        if work is not None:
            level = self._levels[work.standing]
            self._forget(level, work)
            self._end_busy_period(level)
        return work

    def finish(self, work: Work) -> None:
        level = self._levels[work.standing]
        self._apart.discard(work.request)
        level.finish(work)
        self._end_busy_period(level)

    # -- who is next -----------------------------------------------------------------------

    def pop(self, fits: Callable[[Work], Fit], pick: Callable[[Flow], Work] = oldest) -> Work | None:
        """Take the next request and charge its flow; None if none that ``fits`` may start.

        ``pick`` selects a tenant's request.
        """
        shared = [one for one in self._levels if self._levels[one].waiting and not one.is_spare]
        spare = [one for one in self._levels if self._levels[one].waiting and one.is_spare]
        overtaken: list[PriorityLevel] = []
        for standing in sorted(shared, key=self._times.of) or spare:
            level = self._levels[standing]
            work = level.choose(fits, pick)
            if work is not None:
                for other in overtaken:
                    other.overtaken()
                self._times.serve(self._times.of(standing))
                self._times.charge(standing, work.cost / level.weight)
                return self._dispatch(level, work)
            if level.held:
                return None
            if level.is_bound:  # as if it were idle
                self._times.resume(standing)
            overtaken.append(level)
        return None

    def head_of(self, tenant: TenantId, pick: Callable[[Flow], Work] = oldest) -> Work | None:
        """Return the head of the tenant's best level, without spare levels."""
        flows = (level.flows.get(tenant) for level in self._shared if level.waiting)
        return next((pick(flow) for flow in flows if flow is not None and flow.queue), None)

    def pop_apart(self, work: Work) -> Work:
        """Take a request for the tenant's own reserved slots: its level is not charged, so others lose no service."""
        level = self._levels[work.standing]
        self._apart.add(work.request)
        return self._dispatch(level, work)

    def is_flood(self, head: Work) -> bool:
        """True if at least as many requests of this tenant wait as run."""
        flow = self._levels[head.standing].flows[head.tenant]
        return len(flow.queue) >= flow.running > 0

    def is_owed(self, work: Work) -> bool:
        """Served no more than others of its standing, not counting running requests."""
        return self._levels[work.standing].is_owed(work)

    def would_go_first(self, tenant: TenantId, standing: Standing, head: Work) -> bool:
        """True if the absent tenant, arriving now, would precede a waiting request."""
        if standing is not head.standing:
            return standing > head.standing
        return self._levels[standing].would_go_first(tenant, head)

    def correct(self, work: Work, delta_cost: float) -> None:
        """Cost beyond the expectation, negative to return it."""
        level = self._levels[work.standing]
        if work.request not in self._apart:
            self._times.charge(work.standing, delta_cost / level.weight)
        level.correct(work, delta_cost)

    def ahead_of(self, work: Work) -> float:
        """Tokens of service probably done before the request; an estimate in O(1)."""
        level = self._levels[work.standing]
        ahead = level.ahead_of(work)
        if work.standing.is_spare:
            better = [one for at, one in self._levels.items() if not at.is_spare or at > work.standing]
            return ahead + sum(one.cost for one in better)
        others = [one for one in self._shared if one is not level]
        return ahead + sum(min(one.cost, ahead * one.weight / level.weight) for one in others)

    def waiting_beside(self, work: Work) -> Iterable[Work]:
        flow = self._levels[work.standing].flows.get(work.tenant)
        return flow.queue.values() if flow is not None else ()

    def waiting_of(self, work: Work) -> float:
        flow = self._levels[work.standing].flows.get(work.tenant)
        return flow.cost if flow is not None else 0.0

    def waiting_without(self, work: Work) -> float | None:
        """Return None if the queue would be full even without the request's own tenant.

        A tenant beyond its own bounds waits only for itself.
        """
        flows = [level.flows[work.tenant] for level in self._levels.values() if work.tenant in level.flows]
        own = self._levels[work.standing].flows.get(work.tenant)
        if own is not None and not self._has_room_of_its_own(own, work):
            return 0.0
        others = self._cost - sum(flow.cost for flow in flows)
        requests = len(self) - sum(len(flow.queue) for flow in flows)
        return others if self._has_room_in_all(work, requests, others) else None

    def until_room(self, work: Work) -> float:
        """Return the tokens of service before a further request fits."""
        flow, bounds = self._levels[work.standing].flows.get(work.tenant), self.bounds
        if flow is not None and not self._has_room_of_its_own(flow, work):
            over = max(flow.cost / len(flow.queue), flow.cost + work.cost - bounds.tenant_cost)
            return self.ahead_of(work) * min(1.0, over / flow.cost)
        return max(self._cost / max(1, len(self)), self._cost + work.cost - bounds.total_cost)

    def _has_room_of_its_own(self, flow: Flow, work: Work) -> bool:
        bounds = self.bounds
        if not flow.queue:  # one request, however large, is no queue
            return True
        return len(flow.queue) < bounds.tenant_requests and flow.cost + work.cost <= bounds.tenant_cost

    def _has_room_in_all(self, work: Work, requests: int, cost: float) -> bool:
        return requests < self.bounds.total_requests and cost + work.cost <= self.bounds.total_cost

    def _dispatch(self, level: PriorityLevel, work: Work) -> Work:
        level.dispatch(work)
        self._forget_sums(work)
        return work

    def _forget(self, level: PriorityLevel, work: Work) -> None:
        level.take_out(work)
        self._forget_sums(work)

    def _forget_sums(self, work: Work) -> None:
        del self._waiting[work.request]
        self._cost = self._cost - work.cost if self._waiting else 0.0

    def _end_busy_period(self, level: PriorityLevel) -> None:
        if level.waiting or level.running:
            return
        level.clear()
        if not any(each.waiting or each.running for each in self._levels.values()):
            self._times.clear()
