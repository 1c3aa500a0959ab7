"""Whose adapters may be in the engine's batch, and when."""

from penstock.domain.ids import TenantId, VersionId
from penstock.worker.gate.admission.adapter_slots import BOUND_S, LEAST_STAY_S, AdapterSlots
from penstock.worker.gate.admission.residents import Residents

A, B, C, D = (VersionId(f"{name}@000000000000") for name in "abcd")
ACME = TenantId("acme")


def slots(size: int = 2, *, resident: tuple[VersionId, ...] = (A, B, C, D)) -> AdapterSlots:
    residents = Residents(8)
    for one in resident:
        residents.loaded(one, 0.0)
        residents.ready(one, 0.0)
    return AdapterSlots(size, residents)


def enters(door: AdapterSlots, adapter: VersionId, now: float) -> bool:
    """Ask as the door does: whoever may not enter waits."""
    if not door.ask(adapter, now):
        if not door.residents.waits(adapter):
            door.residents.came(adapter, ACME, now)
        return False
    door.enter(adapter, now)
    if door.residents.waits(adapter) and door.residents.gone(adapter, ACME):
        door.gave_up(adapter)
    return True


def seen(door: AdapterSlots) -> None:
    """Forget when to look, as the order does."""
    door.look_at = None


def test_as_many_adapters_come_in_as_there_are_slots() -> None:
    """Two fit, with any number of requests each; a third one waits while something runs in both slots."""
    door = slots()
    assert [enters(door, one, 0.0) for one in (A, A, B, C)] == [True, True, True, False]


def test_a_slot_in_which_nothing_runs_goes_to_whoever_comes() -> None:
    """Where nobody waits for an adapter that has a slot, the least used gives it up at once."""
    door = slots()
    for one in (A, A, B):
        enters(door, one, 0.0)
    door.leave(B)
    assert enters(door, C, 0.1)
    assert (door.holds(A), door.holds(B), door.holds(C)) == (True, False, True)


def test_a_third_adapter_has_a_slot_closed_for_it_once_it_has_waited_its_bound() -> None:
    """Its bound over, one slot takes nobody in any more, and is its own when what runs there has ended."""
    door = slots()
    for one in (A, A, B):
        enters(door, one, 0.0)
    assert not enters(door, C, 0.5)
    assert not enters(door, C, 0.5 + BOUND_S - 0.01)
    assert door.is_open(B)
    assert not enters(door, C, 0.5 + BOUND_S)
    assert (door.is_open(A), door.is_open(B)) == (True, False)
    door.leave(B)
    assert not enters(door, D, 3.0), "the slot is promised"
    assert enters(door, C, 3.0)


def test_one_slot_stays_open_while_another_one_is_handed_on() -> None:
    """The engine has work while a slot runs empty: a second adapter that waits has its turn after the first."""
    door = slots()
    for one in (A, B):
        enters(door, one, 0.0)
    for one in (C, D):
        enters(door, one, 0.0)
    seen(door)
    assert not enters(door, C, BOUND_S)
    assert not enters(door, D, BOUND_S)
    assert [door.is_open(one) for one in (A, B)].count(True) == 1


def test_who_has_just_got_a_slot_keeps_it_for_a_while() -> None:
    """However long others have waited, an adapter stays for the least time; the door is asked again then."""
    door = slots(1)
    enters(door, A, 0.0)
    enters(door, B, 0.0)
    assert not enters(door, B, BOUND_S)
    door.leave(A)
    assert enters(door, B, BOUND_S)
    door.residents.came(C, ACME, 0.0)
    seen(door)
    assert not enters(door, C, BOUND_S)
    assert door.look_at == BOUND_S + LEAST_STAY_S
    assert not enters(door, C, BOUND_S + LEAST_STAY_S)
    assert not door.is_open(B)


def test_what_was_promised_to_one_that_left_stays_whose_it_is() -> None:
    """With its last request gone while it waits, the slot that was closed for it opens again."""
    door = slots(1)
    enters(door, A, 0.0)
    enters(door, B, 0.0)
    enters(door, B, BOUND_S)
    assert not door.is_open(A)
    assert door.residents.gone(B, ACME)
    door.gave_up(B)
    assert door.is_open(A)


def test_an_adapter_that_is_not_here_does_not_come_in() -> None:
    """Slots or none, weights come first; the platform's check of new ones comes in before anybody else's requests."""
    door = slots(resident=(A,))
    assert not door.ask(B, 0.0)
    door.residents.loaded(B, 0.0)
    assert not door.ask(B, 0.0)
    assert door.ask(B, 0.0, checks=True)
    door.enter(B, 0.0)
    assert not door.ask(B, 0.0), "that it is just being checked in a slot lets nobody else in"
    door.residents.ready(B, 0.1)
    assert door.ask(B, 0.1)


def test_a_check_that_ends_after_its_adapter_was_dropped_harms_nobody() -> None:
    """The platform gave up a question and had the adapter dropped; then the engine's answer ends."""
    door = slots()
    enters(door, A, 0.0)
    door.drop(A)
    door.leave(A)
    assert (len(door), door.running(A)) == (0, 0)


def test_the_wait_for_a_slot_is_predicted() -> None:
    """Nothing for who is in a slot, the rest of its bound and an answer for others, a load for who is not here."""
    door = slots(1, resident=(A, B))
    enters(door, A, 0.0)
    enters(door, B, 1.0)
    assert door.wait_s(A, 1.0, 3.0) == 0.0
    assert door.wait_s(B, 2.0, 3.0) == BOUND_S - 1.0 + 3.0
    assert door.wait_s(C, 2.0, 3.0) == door.residents.load_s
