"""The orders of ``PENSTOCK_DOOR_ORDER``: the fair one, and two for comparison.

``fifo`` has the same slots, first come, first served. ``open`` lets everything into the engine's own queue. Neither
isolates tenants: they are for load tests.
"""

from dataclasses import replace

from penstock.domain.ids import NO_VERSION, TenantId
from penstock.domain.tenancy.standing import Standing
from penstock.worker.gate.queueing.adapter_slots import AdapterSlots
from penstock.worker.gate.queueing.admission import AdmissionQueue, Admit, Reject
from penstock.worker.gate.queueing.constants import FIRST_PACE
from penstock.worker.gate.queueing.fair_queue import Bounds
from penstock.worker.gate.queueing.residents import Residents
from penstock.worker.gate.queueing.slots import EngineSize
from penstock.worker.gate.queueing.work import Fit, Work
from penstock.worker.gate_config import GateConfig, QueueOrder

UNKNOWN_BLOCKS = 1 << 30
"""KV blocks before the engine has said how many it has: slots alone bound it until then."""
_ALL = TenantId("all")


class FirstComeQueue(AdmissionQueue):
    def share_of(self, _: Work) -> None: ...

    def is_own(self, _: Work, __: float) -> bool:
        return False

    def expected_wait_s(self, work: Work, now: float) -> float:
        return super().expected_wait_s(_as_of_all(work), now)

    def arrive(self, work: Work, now: float, admit: Admit, reject: Reject) -> None:
        super().arrive(_as_of_all(work), now, admit, reject)


class OpenQueue(AdmissionQueue):
    def share_of(self, _: Work) -> None: ...

    def is_own(self, _: Work, __: float) -> bool:
        return False

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


def queue_of(config: GateConfig) -> AdmissionQueue:
    """Return the queue in front of this gate's engine, in the configured order."""
    size = EngineSize(
        max_seqs=config.max_num_seqs,
        kv_blocks=UNKNOWN_BLOCKS,
        block_size=config.block_size,
        prefill_tokens=config.max_num_batched_tokens,
        long_prefill_tokens=config.long_prefill_tokens,
        displaces=config.displaces,
        takes_turns=config.takes_turns,
    )
    adapters = AdapterSlots(config.adapter_slots, Residents(config.adapters_kept)) if config.adapter_slots else None
    return make(config.door_order, size, adapters=adapters)


def make(
    order: QueueOrder,
    size: EngineSize,
    *,
    bounds: Bounds | None = None,
    pace: float = FIRST_PACE,
    adapters: AdapterSlots | None = None,
) -> AdmissionQueue:
    """Return a queue for an engine of this size; only the fair one waits for adapters."""
    bounds = bounds or Bounds()
    if order is QueueOrder.FAIR:
        return AdmissionQueue(size, bounds=bounds, pace=pace, adapters=adapters)
    if order is QueueOrder.OPEN:
        return OpenQueue(size, bounds=Bounds.none(), pace=pace)
    one_flow = replace(bounds, tenant_requests=bounds.total_requests, tenant_cost=bounds.total_cost)
    return FirstComeQueue(size, bounds=one_flow, pace=pace)
