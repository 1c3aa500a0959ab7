"""Whose input is prepared next, where threads are fewer than inputs: whoever holds least of them for its weight. Pure.

Work on a thread can't be stopped, and an image may take a second: one thread more than a tenant may hold is there for
whoever holds none. Between equals goes first who has used less of the threads' time since it came. Whoever was away
comes back with what the least of the others has used, so being away earns no credit.

Trade-off: turns are by tenant alone; between standings the queue has chosen before.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.domain.ids import TenantId


@dataclass(eq=False, slots=True)
class Waiting:
    """One input that is to be prepared: ``start`` begins it."""

    tenant: TenantId
    weight: int
    start: Callable[[], None]


@dataclass(slots=True)
class _Tenant:
    used_s: float
    weight: int = 1
    running: int = 0
    queue: deque[Waiting] = field(default_factory=deque)

    @property
    def held(self) -> tuple[float, float]:
        """What it holds with one thread more, and what it has used, both for its weight."""
        weight = max(1, self.weight)
        return (self.running + 1) / weight, self.used_s / weight


class Turns:
    """Of one engine. One tenant may hold ``most`` threads, all together one more."""

    def __init__(self, most: int) -> None:
        self._most, self._running = most, 0
        self._tenants: dict[TenantId, _Tenant] = {}

    def __len__(self) -> int:
        """How many wait."""
        return sum(len(one.queue) for one in self._tenants.values())

    def come(self, waiting: Waiting) -> None:
        """Let an input wait for its turn."""
        tenant = self._tenants.get(waiting.tenant)
        if tenant is None:
            least = min((one.used_s / max(1, one.weight) for one in self._tenants.values()), default=0.0)
            tenant = self._tenants[waiting.tenant] = _Tenant(least * max(1, waiting.weight))
        tenant.weight = waiting.weight
        tenant.queue.append(waiting)

    def leave(self, waiting: Waiting) -> None:
        """Forget an input that may still wait: its caller has left."""
        tenant = self._tenants.get(waiting.tenant)
        if tenant is not None and waiting in tenant.queue:
            tenant.queue.remove(waiting)
            self._forget(waiting.tenant)

    def next(self) -> Waiting | None:
        """Take whose turn it is, and a thread for it; None where nobody's is."""
        able = [one for one in self._tenants.values() if one.queue and one.running < self._most]
        if not able or self._running > self._most:
            return None
        tenant = min(able, key=lambda one: one.held)
        tenant.running += 1
        self._running += 1
        return tenant.queue.popleft()

    def ended(self, waiting: Waiting, seconds: float) -> None:
        """Take the thread back: so long it was held."""
        tenant = self._tenants[waiting.tenant]
        tenant.running -= 1
        tenant.used_s += seconds
        self._running -= 1
        self._forget(waiting.tenant)

    def _forget(self, tenant: TenantId) -> None:
        found = self._tenants[tenant]
        if not found.queue and not found.running:
            del self._tenants[tenant]
