"""Fair sharing of preprocessing threads: the next input is that of the tenant with the fewest threads for its weight.
Pure.

Work on a thread can't be stopped, and an image may take a second. So the pool has one thread more than any one tenant
may hold: a tenant without a thread finds one free.

Trade-off: threads are shared among tenants only, not by priority class.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.domain.ids import TenantId
from penstock.fairness.turns import VirtualTimes


@dataclass(eq=False, slots=True)
class PendingInput:
    tenant: TenantId
    weight: int
    start: Callable[[], None]


@dataclass(slots=True)
class _Tenant:
    name: TenantId
    weight: int = 1
    running: int = 0
    queue: deque[PendingInput] = field(default_factory=deque)


class ThreadTurns:
    def __init__(self, most: int) -> None:
        self._most, self._running = most, 0
        self._tenants: dict[TenantId, _Tenant] = {}
        self._times: VirtualTimes[TenantId] = VirtualTimes()

    def __len__(self) -> int:
        return sum(len(one.queue) for one in self._tenants.values())

    def come(self, waiting: PendingInput) -> None:
        tenant = self._tenants.get(waiting.tenant)
        if tenant is None:
            tenant = self._tenants[waiting.tenant] = _Tenant(waiting.tenant)
            self._times.resume(waiting.tenant)
        tenant.weight = max(1, waiting.weight)
        tenant.queue.append(waiting)

    def leave(self, waiting: PendingInput) -> None:
        tenant = self._tenants.get(waiting.tenant)
        if tenant is not None and waiting in tenant.queue:
            tenant.queue.remove(waiting)
            self._forget(tenant)

    def next(self) -> PendingInput | None:
        able = [one for one in self._tenants.values() if one.queue and one.running < self._most]
        if not able or self._running > self._most:
            return None
        tenant = min(able, key=lambda one: ((one.running + 1) / one.weight, self._times.of(one.name)))
        self._times.serve(self._times.of(tenant.name))
        tenant.running += 1
        self._running += 1
        return tenant.queue.popleft()

    def ended(self, waiting: PendingInput, seconds: float) -> None:
        tenant = self._tenants[waiting.tenant]
        tenant.running -= 1
        self._running -= 1
        self._times.charge(tenant.name, seconds / tenant.weight)
        self._forget(tenant)

    def _forget(self, tenant: _Tenant) -> None:
        if not tenant.queue and not tenant.running:
            del self._tenants[tenant.name]
            self._times.forget(tenant.name)
