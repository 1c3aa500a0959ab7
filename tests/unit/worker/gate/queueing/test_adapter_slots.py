"""Whose adapters may be in the engine's batch, and when."""

from penstock.domain.ids import TenantId, VersionId
from penstock.worker.gate.queueing.adapter_slots import AdapterSlots
from penstock.worker.gate.queueing.constants import BOUND_S
from penstock.worker.gate.queueing.residents import Residents

A, B, C, D = (VersionId(f"{name}@000000000000") for name in "abcd")
ACME = TenantId("acme")


def slots(size: int = 2, *, resident: tuple[VersionId, ...] = (A, B, C, D)) -> AdapterSlots:
    residents = Residents(8)
    for one in resident:
        residents.loaded(one, 0.0)
        residents.ready(one, 0.0)
    return AdapterSlots(size, residents)


def enters(queue: AdapterSlots, adapter: VersionId, now: float) -> bool:
    """Ask as the queue does: whoever may not enter waits."""
    if not queue.ask(adapter, now):
        if not queue.residents.waits(adapter):
            queue.residents.came(adapter, ACME, now)
        return False
    queue.enter(adapter, now)
    if queue.residents.waits(adapter) and queue.residents.gone(adapter, ACME):
        queue.gave_up(adapter)
    return True


def seen(queue: AdapterSlots) -> None:
    """Forget when to look, as the order does."""
    queue.look_at = None


def test_as_many_adapters_come_in_as_there_are_slots() -> None:
    """Two fit, with any number of requests each; a third one waits while something runs in both slots."""
    queue = slots()
    assert [enters(queue, one, 0.0) for one in (A, A, B, C)] == [True, True, True, False]


def test_a_slot_in_which_nothing_runs_goes_to_whoever_comes() -> None:
    """Where nobody waits for an adapter that has a slot, the least used gives it up at once."""
    queue = slots()
    for one in (A, A, B):
        enters(queue, one, 0.0)
    queue.leave(B)
    assert enters(queue, C, 0.1)
    assert (queue.holds(A), queue.holds(B), queue.holds(C)) == (True, False, True)


def test_a_third_adapter_has_a_slot_closed_for_it_once_it_has_waited_its_bound() -> None:
    """Its bound over, one slot takes nobody in any more, and is its own when what runs there has ended."""
    queue = slots()
    for one in (A, A, B):
        enters(queue, one, 0.0)
    assert not enters(queue, C, 0.5)
    assert not enters(queue, C, 0.5 + BOUND_S - 0.01)
    assert queue.is_open(B)
    assert not enters(queue, C, 0.5 + BOUND_S)
    assert (queue.is_open(A), queue.is_open(B)) == (True, False)
    queue.leave(B)
    assert not enters(queue, D, 3.0), "the slot is promised"
    assert enters(queue, C, 3.0)


def test_one_slot_stays_open_while_another_one_is_handed_on() -> None:
    """The engine has work while a slot runs empty: a second adapter that waits has its turn after the first."""
    queue = slots()
    for one in (A, B):
        enters(queue, one, 0.0)
    for one in (C, D):
        enters(queue, one, 0.0)
    seen(queue)
    assert not enters(queue, C, BOUND_S)
    assert not enters(queue, D, BOUND_S)
    assert [queue.is_open(one) for one in (A, B)].count(True) == 1


def test_who_has_just_got_a_slot_keeps_it_for_a_while() -> None:
    """However long others have waited, an adapter stays for the least time; the queue is asked again then."""
    queue = slots(1)
    enters(queue, A, 0.0)
    enters(queue, B, 0.0)
    assert not enters(queue, B, BOUND_S)
    queue.leave(A)
    assert enters(queue, B, BOUND_S)
    queue.residents.came(C, ACME, 0.0)
    seen(queue)
    assert not enters(queue, C, BOUND_S)
    assert queue.look_at == BOUND_S + (BOUND_S / 2)
    assert not enters(queue, C, BOUND_S + (BOUND_S / 2))
    assert not queue.is_open(B)


def test_what_was_promised_to_one_that_left_stays_whose_it_is() -> None:
    """With its last request gone while it waits, the slot that was closed for it opens again."""
    queue = slots(1)
    enters(queue, A, 0.0)
    enters(queue, B, 0.0)
    enters(queue, B, BOUND_S)
    assert not queue.is_open(A)
    assert queue.residents.gone(B, ACME)
    queue.gave_up(B)
    assert queue.is_open(A)


def test_an_adapter_that_is_not_here_does_not_come_in() -> None:
    """Slots or none, weights come first; the platform's check of new ones comes in before anybody else's requests."""
    queue = slots(resident=(A,))
    assert not queue.ask(B, 0.0)
    queue.residents.loaded(B, 0.0)
    assert not queue.ask(B, 0.0)
    assert queue.ask(B, 0.0, checks=True)
    queue.enter(B, 0.0)
    assert not queue.ask(B, 0.0), "that it is just being checked in a slot lets nobody else in"
    queue.residents.ready(B, 0.1)
    assert queue.ask(B, 0.1)


def test_a_check_that_ends_after_its_adapter_was_dropped_harms_nobody() -> None:
    """The platform gave up a question and had the adapter dropped; then the engine's answer ends."""
    queue = slots()
    enters(queue, A, 0.0)
    queue.drop(A)
    queue.leave(A)
    assert (len(queue), queue.running(A)) == (0, 0)


def test_the_wait_for_a_slot_is_predicted() -> None:
    """Nothing for who is in a slot, the rest of its bound and an answer for others, a load for who is not here."""
    queue = slots(1, resident=(A, B))
    enters(queue, A, 0.0)
    enters(queue, B, 1.0)
    assert queue.wait_s(A, 1.0, 3.0) == 0.0
    assert queue.wait_s(B, 2.0, 3.0) == BOUND_S - 1.0 + 3.0
    assert queue.wait_s(C, 2.0, 3.0) == queue.residents.load_s
