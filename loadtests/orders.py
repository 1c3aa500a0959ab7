"""The worker's queue, and two orders to compare it with in virtual time.

``fifo`` has the same slots, first come, first served. ``open`` lets everything into the engine's own queue. Neither
isolates tenants, and no process runs them.
"""

import sys
from dataclasses import replace
from enum import StrEnum
from math import inf

from penstock.domain.ids import NO_VERSION, TenantId
from penstock.domain.serving.report import FIRST_PACE
from penstock.domain.tenancy.standing import Standing
from penstock.worker.gate.queueing.admission import AdmissionQueue, Admit, Reject
from penstock.worker.gate.queueing.fair_queue import Bounds
from penstock.worker.gate.queueing.slots import EngineSize
from penstock.worker.gate.queueing.work import Fit, Work

_ALL = TenantId("all")
UNBOUNDED = Bounds(tenant_requests=sys.maxsize, tenant_cost=inf, total_requests=sys.maxsize, total_cost=inf)


class QueueOrder(StrEnum):
    FAIR = "fair"
    FIFO = "fifo"
    OPEN = "open"


class FirstComeQueue(AdmissionQueue):
    def expected_wait_s(self, work: Work, now: float) -> float:
        return super().expected_wait_s(_as_of_all(work), now)

    def arrive(self, work: Work, now: float, admit: Admit, reject: Reject) -> None:
        super().arrive(_as_of_all(work), now, admit, reject)


class OpenQueue(AdmissionQueue):
    def expected_wait_s(self, _: Work, __: float) -> float:
        """Return 0: the engine's own queue is not counted."""
        return 0.0

    @property
    def _is_full(self) -> bool:
        return False

    def _fits(self, _: Work, __: float) -> Fit:
        return Fit.YES


def _as_of_all(work: Work) -> Work:
    standing = Standing.INTERACTIVE
    return replace(work, tenant=_ALL, standing=standing, weight=1.0, reserved=0.0, adapter=NO_VERSION)


def make(
    order: QueueOrder, size: EngineSize, *, bounds: Bounds | None = None, pace: float = FIRST_PACE
) -> AdmissionQueue:
    """Return a queue of this order for an engine of this size."""
    bounds = bounds or Bounds()
    if order is QueueOrder.FAIR:
        return AdmissionQueue(size, bounds=bounds, pace=pace)
    if order is QueueOrder.OPEN:
        return OpenQueue(size, bounds=UNBOUNDED, pace=pace)
    one_flow = replace(bounds, tenant_requests=bounds.total_requests, tenant_cost=bounds.total_cost)
    return FirstComeQueue(size, bounds=one_flow, pace=pace)
