"""Counts requests that entered the engine while another waited: by standing, its own tenant's and all others'. Pure.

Trade-off: only counters by standing and present tenant are kept; two snapshots give the difference in O(1).
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.domain.ids import TenantId
from penstock.domain.serving.report import Ahead
from penstock.domain.tenancy.standing import Standing
from penstock.worker.gate.queueing.work import Work


class Mark(NamedTuple):
    everybody: tuple[int, ...]
    own: tuple[int, ...]
    tenants: int


@dataclass(slots=True)
class _Tenant:
    here: int = 0
    entered: list[int] = field(default_factory=lambda: [0 for _ in Standing])


class Entered:
    def __init__(self) -> None:
        self._everybody = [0 for _ in Standing]
        self._tenants: dict[TenantId, _Tenant] = {}

    def mark(self, tenant: TenantId) -> Mark:
        own = self._tenants.get(tenant)
        return Mark(
            tuple(self._everybody),
            tuple((own or _Tenant()).entered),
            len(self._tenants) - (own is not None),
        )

    def came(self, work: Work) -> None:
        self._tenants.setdefault(work.tenant, _Tenant()).here += 1

    def entered(self, work: Work) -> None:
        self._everybody[work.standing] += 1
        self._tenants[work.tenant].entered[work.standing] += 1

    def gone(self, work: Work) -> None:
        tenant = self._tenants[work.tenant]
        tenant.here -= 1
        if not tenant.here:
            del self._tenants[work.tenant]

    def since(self, mark: Mark, tenant: TenantId) -> tuple[Ahead, ...]:
        own = self._tenants.get(tenant)
        ours = own.entered if own is not None else mark.own
        return tuple(
            Ahead(standing=one.name.lower(), own=ours[one] - mark.own[one], others=went - (ours[one] - mark.own[one]))
            for one in sorted(Standing, reverse=True)
            if (went := self._everybody[one] - mark.everybody[one])
        )
