"""The doors that can be chosen: the fair one, and two to compare it with on the same platform.

``fifo`` has the same seats and serves whoever came first; ``open`` lets everybody straight into the engine's own queue
and refuses nobody. Neither protects anybody from anybody: they are for load tests.
"""

from collections import OrderedDict
from collections.abc import Sequence

from penstock.domain.ids import RequestId
from penstock.worker.gate.admission.adapter_slots import AdapterSlots
from penstock.worker.gate.admission.cost import Fit, Work
from penstock.worker.gate.admission.door import Door, Order
from penstock.worker.gate.admission.fair_order import FairOrder
from penstock.worker.gate.admission.fair_queue import Bounds, FairQueue
from penstock.worker.gate.admission.pace import Pace, Stay
from penstock.worker.gate.admission.residents import Residents
from penstock.worker.gate.admission.seats import EngineSize, Seats
from penstock.worker.gate_config import DoorOrder, GateConfig

FIRST_PACE = 500.0
"""Tokens of service per second that an engine is believed to do before it has been seen at work."""

UNKNOWN_BLOCKS = 1 << 30
"""KV blocks before the engine has said how many it has: slots alone bound it until then."""


def before(config: GateConfig) -> Door:
    """Return the door before an engine that a gate was set up for."""
    size = EngineSize(
        max_seqs=config.max_num_seqs,
        kv_blocks=UNKNOWN_BLOCKS,
        block_size=config.block_size,
        prefill_tokens=config.max_num_batched_tokens,
        long_prefill_tokens=config.long_prefill_tokens,
        displaces=config.displaces,
        takes_turns=config.takes_turns,
    )
    slots = AdapterSlots(config.adapter_slots, Residents(config.adapters_kept)) if config.adapter_slots else None
    return make(config.door_order, size, slots=slots)


def make(
    order: DoorOrder,
    size: EngineSize,
    *,
    bounds: Bounds | None = None,
    pace: float = FIRST_PACE,
    slots: AdapterSlots | None = None,
) -> Door:
    """Return a door for an engine of this size; ``pace`` is the first guess in tokens of service per second.

    Only the fair one waits for adapters; before the others they have to be there, and the engine's own order holds.
    """
    seats, bounds, stay = Seats(size), bounds or Bounds(), Stay()
    orders: dict[DoorOrder, Order] = {
        DoorOrder.FAIR: FairOrder(FairQueue(bounds), seats, stay, slots),
        DoorOrder.FIFO: FifoOrder(seats, bounds),
        DoorOrder.OPEN: OpenOrder(),
    }
    return Door(orders[order], seats, Pace(initial=pace), stay, slots=slots)


class FifoOrder:
    """First come, first served, for tenants and classes alike; bounded in all, as the fair queue is."""

    def __init__(self, seats: Seats, bounds: Bounds) -> None:
        self._seats, self._bounds = seats, bounds
        self._waiting: OrderedDict[RequestId, Work] = OrderedDict()
        self.waiting_cost, self.look_at = 0.0, None

    def __len__(self) -> int:
        return len(self._waiting)

    def seen(self, work: Work, now: float) -> None:
        """Who comes makes no difference."""

    def ahead_of(self, work: Work) -> float:
        """Return everything that waits, and until a seat comes free; nothing where it could enter at once."""
        if not len(self) and self._seats.room_for(work) is Fit.YES:
            return 0.0
        return self.waiting_cost + self._seats.mean_cost

    def hold_s(self, _: Work) -> float:
        """Return nothing: whoever comes has what it needs."""
        return 0.0

    def share_of(self, work: Work) -> float | None:
        """Return nothing: nobody has a share."""

    def ahead_without_own(self, work: Work) -> float | None:
        """Return nothing: one queue is everybody's."""

    def until_room(self, work: Work) -> float:
        """Return by how much the queue is too long."""
        return max(self.waiting_cost / max(1, len(self)), self.waiting_cost + work.cost - self._bounds.total_cost)

    def push(self, work: Work) -> Sequence[Work] | None:
        """Queue it behind all others; nobody gives way."""
        full = len(self) >= self._bounds.total_requests or self.waiting_cost + work.cost > self._bounds.total_cost
        if full:
            return None
        self._waiting[work.request] = work
        self.waiting_cost += work.cost
        return ()

    def next(self, _: float) -> Work | None:
        """Take the oldest, once there is a seat for it."""
        head = next(iter(self._waiting.values()), None)
        if head is None or self._seats.room_for(head) is not Fit.YES:
            return None
        self.remove(head.request)
        return head

    def remove(self, request: RequestId) -> None:
        """Take a waiting request out."""
        work = self._waiting.pop(request, None)
        if work is not None:
            self.waiting_cost = self.waiting_cost - work.cost if self._waiting else 0.0

    def correct(self, work: Work, delta_cost: float) -> None:
        """Nobody is charged."""

    def finish(self, work: Work, now: float) -> None:
        """Nobody has an account."""


class OpenOrder:
    """No order at all: whoever comes is in the engine at once."""

    waiting_cost = 0.0
    look_at: float | None = None

    def __init__(self) -> None:
        self._coming: list[Work] = []

    def __len__(self) -> int:
        """Requests waiting: none, ever."""
        return len(self._coming)

    def seen(self, work: Work, now: float) -> None:
        """Who comes makes no difference."""

    def ahead_of(self, _: Work) -> float:
        """Return nothing: what the engine's own queue costs is not asked."""
        return 0.0

    def hold_s(self, _: Work) -> float:
        """Return nothing: whoever comes has what it needs."""
        return 0.0

    def share_of(self, work: Work) -> float | None:
        """Return nothing: nobody has a share."""

    def ahead_without_own(self, _: Work) -> float | None:
        """Return nothing: nobody is refused."""

    def until_room(self, _: Work) -> float:
        """Return nothing: there is always room."""
        return 0.0

    def push(self, work: Work) -> Sequence[Work] | None:
        """Take it."""
        self._coming.append(work)
        return ()

    def next(self, _: float) -> Work | None:
        """Pass it on."""
        return self._coming.pop() if self._coming else None

    def remove(self, request: RequestId) -> None:
        """Nobody waits."""

    def correct(self, work: Work, delta_cost: float) -> None:
        """Nobody is charged."""

    def finish(self, work: Work, now: float) -> None:
        """Nobody has an account."""
