"""The doors to compare with: first come first served, and none."""

from functools import partial

import pytest

from loadtests import orders
from loadtests.orders import QueueOrder
from penstock.domain.ids import RequestId, TenantId
from penstock.domain.tenancy.standing import Standing
from penstock.worker.gate.queueing.admission import AdmissionQueue, Shed
from penstock.worker.gate.queueing.fair_queue import Bounds
from penstock.worker.gate.queueing.slots import EngineSize
from penstock.worker.gate.queueing.work import Work

SIZE = EngineSize(max_seqs=2, kv_blocks=100, block_size=16, watermark=0.0, prefill_tokens=10_000)


class House:
    """A queue and what it told whom."""

    def __init__(self, order: QueueOrder, bounds: Bounds | None = None) -> None:
        """Open it."""
        self.queue: AdmissionQueue = orders.make(order, SIZE, bounds=bounds, pace=100.0)
        self.inside: list[str] = []
        self.shed: list[tuple[str, Shed]] = []

    def arrive(self, *names: str, deadline_at: float = 0.0) -> None:
        """Bring requests to the queue; a request's first letter is its tenant."""
        for name in names:
            work = Work(
                request=RequestId(name),
                tenant=TenantId(name[0]),
                standing=Standing.INTERACTIVE if name[0] == "v" else Standing.BATCH,
                weight=1.0,
                prompt_tokens=100,
                expected_output_tokens=50,
                deadline_at=deadline_at,
            )
            self.queue.arrive(work, 0.0, partial(self.inside.append, name), partial(self._sent, name))

    def _sent(self, name: str, why: Shed, wait_s: float) -> None:
        self.shed.append((name, why))

    def leave(self, *names: str) -> None:
        """End requests."""
        for name in names:
            self.queue.leave(RequestId(name), 1.0)


def test_fifo_serves_in_the_order_of_arrival() -> None:
    """Neither class nor tenant nor the flood behind a request changes whose turn it is; the slots are the same."""
    house = House(QueueOrder.FIFO)
    house.arrive("f1", "f2", "f3", "f4", "v1")
    assert house.inside == ["f1", "f2"]
    house.leave("f3")
    house.leave("f1", "f2")
    assert house.inside == ["f1", "f2", "f4", "v1"]
    assert (len(house.queue), house.queue.waiting_cost) == (0, 0.0)


def test_fifo_keeps_its_bounds() -> None:
    """Full is full for everybody, and nobody is evicted; what can't be in time is refused by the whole queue."""
    house = House(QueueOrder.FIFO, Bounds(total_requests=2))
    house.arrive("f1", "f2", "f3", "f4", "v1")
    assert house.shed == [("v1", Shed.FULL)]
    late = House(QueueOrder.FIFO)
    late.arrive("f1", "f2", "f3")
    late.arrive("v1", deadline_at=1.9)
    assert late.shed == [("v1", Shed.LATE)]


def test_an_open_door_refuses_nobody() -> None:
    """Everything is in the engine's own queue at once, whatever its slots, bounds and deadlines say."""
    house = House(QueueOrder.OPEN, Bounds(total_requests=1))
    names = [f"f{i}" for i in range(50)]
    house.arrive(*names, deadline_at=0.001)
    assert (house.inside, house.shed) == (names, [])
    house.leave(*names)
    assert len(house.queue.slots) == 0


@pytest.mark.parametrize("order", QueueOrder)
def test_a_closed_door_keeps_nobody_waiting(order: QueueOrder) -> None:
    """Whoever waits when the worker goes hears so, whatever the order."""
    house = House(order)
    house.arrive("f1", "f2", "f3")
    house.queue.close()
    assert len(house.inside) + len(house.shed) == 3
    assert len(house.queue) == 0
