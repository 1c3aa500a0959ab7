"""Who may enter: parts by standing, shares by weight, and what was reserved before both."""

from dataclasses import replace

from penstock.domain.ids import RequestId, TenantId
from penstock.domain.tenancy.standing import Standing
from penstock.worker.batching.tenants import ACTIVE_S
from penstock.worker.gate.queueing.may_enter import MayEnter
from penstock.worker.gate.queueing.slots import EngineSize, Slots
from penstock.worker.gate.queueing.work import Fit, Work

SIZE = EngineSize(max_seqs=8, kv_blocks=100, block_size=16, watermark=0.0, prefill_tokens=10_000)


def work(name: str, tenant: str = "a", *, standing: Standing = Standing.INTERACTIVE, reserved: float = 0.0) -> Work:
    return Work(
        request=RequestId(name),
        tenant=TenantId(tenant),
        standing=standing,
        weight=1.0,
        prompt_tokens=16,
        expected_output_tokens=16,
        reserved=reserved,
    )


class Rules:
    """Slots and their rules."""

    def __init__(self, size: EngineSize = SIZE) -> None:
        """Begin empty."""
        self.slots = Slots(size)
        self.entitled = MayEnter(self.slots)

    def slot(self, *works: Work) -> int:
        """Let in whoever may enter; return how many did."""
        entered = 0
        for one in works:
            self.entitled.seen(one, 0.0)
            if self.entitled.fits(one) is Fit.YES:
                self.entitled.active.come(one.tenant)
                self.slots.take(one)
                entered += 1
        return entered


def test_a_tenant_fills_the_engine_but_for_what_is_kept_for_others() -> None:
    """A share is no cap: beside others a tenant takes all slots but an eighth, and who is below its share has those."""
    rules = Rules(replace(SIZE, max_seqs=16))
    rules.entitled.seen(work("b", "b"), 0.0)
    assert rules.slot(*(work(f"a{i}") for i in range(17))) == 14
    assert rules.slot(*(work(f"b{i}", "b") for i in range(3))) == 2


def test_nothing_is_kept_where_all_have_their_share() -> None:
    """Two that both want all of it have half each, and no slot is idle."""
    rules = Rules()
    rules.entitled.seen(work("b", "b"), 0.0)
    assert rules.slot(*(work(f"{'ab'[i % 2]}{i}", "ab"[i % 2]) for i in range(10))) == 8


def test_nothing_is_kept_for_lower_standings() -> None:
    """Interactive work leaves no slot for a batch tenant that pauses."""
    rules = Rules()
    rules.entitled.seen(work("b", "batch", standing=Standing.BATCH), 0.0)
    assert rules.slot(*(work(f"a{i}") for i in range(9))) == 8


def test_nothing_is_kept_for_spare_work() -> None:
    """A tenant that only sends work over its quota is not about: no slot stays empty for it."""
    rules = Rules()
    rules.entitled.seen(work("s", "spare", standing=Standing.OVER_QUOTA), 0.0)
    assert rules.slot(*(work(f"a{i}") for i in range(9))) == 8


def test_prompts_fill_a_step_only_where_nobody_else_is_about() -> None:
    """Alone a tenant's prompts enter together; beside another one they leave most of each step to whoever comes."""
    alone = Rules(replace(SIZE, prefill_tokens=64))
    assert alone.slot(*(work(f"a{i}") for i in range(8))) == 4
    beside = Rules(replace(SIZE, prefill_tokens=64))
    beside.entitled.seen(work("b", "b"), 0.0)
    assert beside.slot(*(work(f"a{i}") for i in range(8))) == 1
    assert beside.slot(*(work(f"{name}0", name) for name in "bcd")) == 2, "who has nothing inside joins half a step"


def test_prompts_of_copies_meet_one_another_as_their_originals_did() -> None:
    """Spare work counts as nobody, but a step that copies fill together would make an equal candidate look slow."""
    copies = [work(f"c{i}", f"_shadow/{i % 2}", standing=Standing.SHADOW) for i in range(6)]
    assert Rules(replace(SIZE, prefill_tokens=64)).slot(*copies) == 2
    batch = [work(f"o{i}", f"over-{i % 2}", standing=Standing.OVER_QUOTA) for i in range(6)]
    assert Rules(replace(SIZE, prefill_tokens=64)).slot(*batch) == 4


def test_seats_are_kept_for_better_standings() -> None:
    """Batch work never takes the last slots, so interactive work needn't wait for long answers to end."""
    rules = Rules()
    assert rules.slot(*(work(f"b{i}", f"t{i}", standing=Standing.BATCH) for i in range(8))) == 6
    assert rules.slot(work("now", "vip")) == 1


def test_what_better_standings_hold_does_not_count_against_batch() -> None:
    """A part is of a standing's own and lower work: in an engine full of interactive work batch still has its turn."""
    rules = Rules()
    assert rules.slot(*(work(f"i{i}", f"t{i}") for i in range(7))) == 7
    assert rules.slot(work("b", "batch", standing=Standing.BATCH)) == 1


def test_worse_standings_do_not_take_what_better_ones_may_not() -> None:
    """The last slots are for interactive work whoever else is inside: free work can't have what paid work is denied."""
    rules = Rules(replace(SIZE, max_seqs=20))
    assert rules.slot(*(work(f"p{i}", f"t{i}", standing=Standing.PAID) for i in range(20))) == 18
    assert rules.slot(work("f", "free", standing=Standing.FREE)) == 0
    assert rules.slot(work("i", "vip")) == 1


def test_spare_work_leaves_room_whoever_is_inside() -> None:
    """For work over quota everything inside counts: it never makes the engine fuller than its part."""
    rules = Rules()
    assert rules.slot(*(work(f"i{i}", f"t{i}") for i in range(5))) == 5
    assert rules.slot(work("s", "spare", standing=Standing.OVER_QUOTA)) == 0


def test_a_reservation_is_no_bound() -> None:
    """Beyond what it reserved a tenant competes like everybody."""
    rules = Rules()
    assert rules.slot(*(work(f"r{i}", "r", reserved=0.25) for i in range(8))) == 8


def test_who_has_been_silent_is_forgotten() -> None:
    """Half a minute after it was last seen nothing is kept for a tenant, unless something of it is still here."""
    rules = Rules()
    active = rules.entitled.active
    for tenant in ("gone", "here"):
        active.seen(work("r", tenant), 0.0)
    active.come(TenantId("here"))
    active.forget(ACTIVE_S)
    assert active.others(work("r", "me"), Standing.INTERACTIVE) == 2
    assert active.share_of(work("r", "here")) == 0.5
    active.forget(ACTIVE_S + 1)
    assert active.is_alone
    assert active.share_of(work("r", "here")) == 1.0
    active.leave(TenantId("here"))
    active.forget(2 * ACTIVE_S + 2)
    assert active.others(work("r", "me"), Standing.INTERACTIVE) == 0


def batch(name: str) -> Work:
    return work(name, "batch", standing=Standing.BATCH)


def test_batch_work_holds_the_slots_that_yielding_allows() -> None:
    """Two of eight, whatever else is inside; no bound leaves it its part."""
    for bound, entered in ((2, 2), (None, 5)):
        rules = Rules()
        rules.slots.batch_slots = bound
        assert rules.slot(work("a")) == 1
        assert rules.slot(*(batch(f"b{number}") for number in range(5))) == entered
