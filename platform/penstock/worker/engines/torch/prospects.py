"""Predicts from measured item times whether a request can meet its deadline; if not, names the reason. Pure.

If a list misses its deadline, the error names the cause: it needed more than its tenant's share of the device, or its
tenant's other items used that share, or the platform was slow.

Trade-off: equal shares by items are assumed; queue and batcher apply the weights, and few refusals depend on them.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from penstock.domain.errors import DeadlineExceeded, DeadlineInQueue, ExceedsEngine, PenstockError
from penstock.domain.ids import TenantId
from penstock.domain.outcome import TENANT_QUEUE

SURE_PART = 0.1
"""The part of a request's time after which its item times are meaningful."""
DOUBT = 0.5
"""The initial factor of predicted need over available time from which a request is refused."""


@dataclass(slots=True)
class Prospect:
    tenant: TenantId
    items: int
    came_at: float
    until: float
    done: int = 0
    engine_s: float = 0.0
    has_begun: bool = False
    """Whether one of its items was in a batch, which can't be withdrawn."""
    came_behind_own: bool = False
    """Whether its tenant already had its share of the items here on arrival: then all of those may miss their deadlines
    together.
    """

    @property
    def whole_s(self) -> float:
        return self.until - self.came_at

    def began(self) -> None:
        self.has_begun = True

    def did(self, seconds: float) -> None:
        self.done += 1
        self.engine_s += seconds

    def most(self, part: float = 1.0) -> int:
        return max(1, int(part * self.whole_s * self.done / self.engine_s)) if self.engine_s else self.items

    def check(self, now: float) -> None:
        """``ExceedsEngine`` if the request can't meet its deadline even alone on the device."""
        passed = (now - self.came_at) / self.whole_s
        if passed >= SURE_PART and self.most(1.0 + DOUBT * (1.0 - passed)) < self.items:
            raise self.too_large()

    def too_large(self, tenants: int = 1) -> ExceedsEngine:
        beside = f" beside {tenants - 1} other tenants" if tenants > 1 else ""
        return ExceedsEngine(
            f"it has {self.items} inputs, and about {self.most(1.0 / tenants)} like these are computed{beside} in the "
            f"{self.whole_s:.0f} s that it may take: send smaller lists",
            param="input",
        )


class Prospects:
    def __init__(self) -> None:
        self._items: Counter[TenantId] = Counter()

    @contextmanager
    def of(self, prospect: Prospect) -> Iterator[None]:
        prospect.came_behind_own = self._is_shared_with_own(prospect.tenant)
        self._items[prospect.tenant] += prospect.items
        try:
            yield
        finally:
            self._items[prospect.tenant] -= prospect.items
            if not self._items[prospect.tenant]:
                del self._items[prospect.tenant]

    def ran_out(self, prospect: Prospect) -> PenstockError:
        """A missed deadline was caused by the tenant itself, or by the platform."""
        tenants = len(self._items)
        if prospect.done and prospect.most(1.0 / tenants) < prospect.items:
            return prospect.too_large(tenants)
        is_own = prospect.came_behind_own or self._is_shared_with_own(prospect.tenant, but=prospect.items)
        kind = DeadlineExceeded if prospect.has_begun else DeadlineInQueue
        return kind(reason=TENANT_QUEUE if is_own else None)

    def _is_shared_with_own(self, tenant: TenantId, *, but: int = 0) -> bool:
        """At least an even share of the running items, even without ``but`` of its own."""
        own = self._items[tenant] - but
        return own > 0 and own * len(self._items) >= self._items.total() - but
