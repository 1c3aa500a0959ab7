"""The queue before an engine inside which tenants take turns: others' slots are in nobody's way."""

from functools import partial

from penstock.domain.ids import RequestId, TenantId
from penstock.domain.tenancy.standing import Standing
from penstock.worker.gate.queueing.admission import AdmissionQueue
from penstock.worker.gate.queueing.slots import EngineSize
from penstock.worker.gate.queueing.work import Work

SLOTS = 16


class Full:
    """A queue before an engine that one tenant's lists fill, with more waiting."""

    def __init__(self, *, time_shares: bool = True) -> None:
        size = EngineSize(
            max_seqs=SLOTS, kv_blocks=1 << 30, block_size=16, prefill_tokens=1 << 30, time_shares=time_shares
        )
        self.queue: AdmissionQueue = AdmissionQueue(size)
        self.inside: list[str] = []
        for number in range(SLOTS):
            self.ask("flood", number, sequences=2)

    def ask(
        self, tenant: str, number: int = 0, *, sequences: int = 1, standing: Standing = Standing.INTERACTIVE
    ) -> bool:
        """Bring a request; tell whether it entered at once."""
        work = Work(
            request=RequestId(f"{tenant}/{number}"),
            tenant=TenantId(tenant),
            standing=standing,
            weight=1.0,
            prompt_tokens=256 * sequences,
            expected_output_tokens=0,
            sequences=sequences,
        )
        self.queue.arrive(work, 0.0, partial(self.inside.append, work.request), lambda *_: None)
        return work.request in self.inside


def test_whoever_is_below_its_share_comes_in_at_once() -> None:
    """Several at once too, up to its share of the slots, and beside lists that wait for room."""
    full = Full()
    assert len(full.inside) == SLOTS / 2
    assert [full.ask("reader", number) for number in range(10)] == [True] * 8 + [False] * 2
    assert not Full(time_shares=False).ask("reader")


def test_it_comes_in_however_much_it_has_had_before() -> None:
    """A long list is charged as it begins: who was served often since then is not ahead of it."""
    full = Full()
    for number in range(100):
        assert full.ask("reader", number)
        full.queue.leave(RequestId(f"reader/{number}"), 0.0)


def test_nobody_waits_for_a_list_that_finds_no_room() -> None:
    """However often others pass it."""
    full = Full()
    full.queue.leave(RequestId("flood/0"), 0.0)
    for number in range(20):
        assert full.ask("reader", number)
        assert full.ask("writer", number)
        full.queue.leave(RequestId(f"reader/{number}"), 0.0)
        full.queue.leave(RequestId(f"writer/{number}"), 0.0)


def test_spare_work_waits_for_room_and_all_seats_are_twice_as_many_at_most() -> None:
    """A crowd of tenants does not fill the memory."""
    full = Full()
    assert not full.ask("spare", standing=Standing.SHADOW)
    assert sum(full.ask(f"t{number}") for number in range(3 * SLOTS)) == SLOTS
