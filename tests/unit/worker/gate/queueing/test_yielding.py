"""The slots of batch work: learned from late events, never 0, never from what batch work did not cause."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.serving.slo import NO_PROMISE, TimedPromise
from penstock.domain.tenancy.standing import Standing
from penstock.worker.gate.queueing.constants import HEADROOM, LEARNING, MOST_ANTICIPATION_S
from penstock.worker.gate.queueing.yielding import BatchHeld, LearnedSlots, Yielding

PROMISE = TimedPromise(first_s=1.0, each_s=0.1, late_ratio=0.05)
TOLERATED = 0.05 / HEADROOM
MOST = 32


def learned(slots: float) -> LearnedSlots:
    found = LearnedSlots()
    found.slots = slots
    return found


def busy() -> Yielding:
    """Return the state beside an interactive request."""
    made = Yielding()
    made.came(Standing.INTERACTIVE)
    return made


def warm() -> Yielding:
    """Return the same once the engine has made a step."""
    made = busy()
    made.step(NO_PROMISE, 0.01, 0.0, lambda: BatchHeld(8, MOST))
    return made


def stepped(yielding: Yielding, *seconds: float, held: float = 8, promise: TimedPromise = PROMISE) -> None:
    at = 0.0
    yielding.step(NO_PROMISE, 0.0, at, lambda: BatchHeld(held, MOST))
    for one in seconds:
        at += one
        yielding.step(promise, one, at, lambda: BatchHeld(held, MOST))


def test_nothing_known_is_no_bound() -> None:
    """Before any late event batch work holds what it could anyway."""
    yielding = busy()
    stepped(yielding, *[0.05] * 100)
    assert yielding.slots(0.0) is None


def test_a_late_step_takes_a_tenth_of_what_was_held() -> None:
    """The first one starts from the slots that batch work holds, as one more than they were not tried."""
    yielding = busy()
    stepped(yielding, 0.11, held=9)
    assert yielding.each.slots == pytest.approx(10 * (1 - LEARNING) ** (1 - TOLERATED))
    assert yielding.slots(0.0) == math.floor(yielding.each.slots)


@pytest.mark.parametrize(("seconds", "is_late"), [(0.1, False), (0.1 + 1e-9, True)])
def test_late_is_beyond_the_promise(seconds: float, *, is_late: bool) -> None:
    """A step of exactly the promised time keeps it."""
    yielding = busy()
    yielding.each.slots = 8.5
    stepped(yielding, seconds)
    assert (yielding.each.slots < 8.5) == is_late


@pytest.mark.parametrize(("seconds", "is_late"), [(1.0, False), (1.0 + 1e-9, True)])
def test_a_first_token_is_late_beyond_its_promise(seconds: float, *, is_late: bool) -> None:
    """It counts apart from steps, which are many more."""
    yielding = warm()
    yielding.first.slots = yielding.each.slots = 8.5
    yielding.first_token(PROMISE, seconds, 10.0, BatchHeld(8, MOST))
    assert (yielding.first.slots < 8.5) == is_late
    assert yielding.each.slots == 8.5


def test_the_least_bound_holds() -> None:
    """Late first tokens, late steps and the autoscaler each have one."""
    yielding = busy()
    yielding.first.slots, yielding.each.slots = 7.9, 12.0
    assert yielding.slots(0.0) == 7
    yielding.each.slots = 3.2
    assert yielding.slots(0.0) == 3
    yielding.told = 2
    assert yielding.slots(0.0) == 2
    yielding.told = 0
    assert yielding.slots(0.0) == 1
    assert yielding.bounds(0.0) == {"ttft": 7.9, "itl": 3.2, "autoscaler": 1}


def test_it_settles_where_the_tolerated_part_is_late() -> None:
    """One late event in twenty, divided by the headroom, leaves the number where it is."""
    slots = learned(10.0)
    for _ in range(100):
        slots.learn(BatchHeld(math.floor(slots.slots), MOST), 0.05, is_late=True)
        for _ in range(25):
            slots.learn(BatchHeld(math.floor(slots.slots), MOST), 0.05, is_late=False)
    assert slots.slots == pytest.approx(10.0)


def test_it_recovers_within_steps_and_falls_within_fewer() -> None:
    """From 1 to 20 in about 800 steps in time, 20 s of a GPU's; from 20 to 2 in 24 late ones."""
    slots, steps = learned(1.0), 0
    while slots.slots < 20:
        slots.learn(BatchHeld(math.floor(slots.slots), MOST), 0.05, is_late=False)
        steps += 1
    assert 700 < steps < 850
    steps = 0
    while slots.slots > 2:
        slots.learn(BatchHeld(math.floor(slots.slots), MOST), 0.05, is_late=True)
        steps += 1
    assert 20 < steps < 30


def test_slots_that_are_already_being_left_are_not_taken_again() -> None:
    """While answers of batch work end one by one, late steps are expected; those in time count."""
    slots = learned(5.0)
    slots.learn(BatchHeld(6, MOST), 0.05, is_late=True)
    assert slots.slots == 5.0
    slots.learn(BatchHeld(5, MOST), 0.05, is_late=True)
    assert slots.slots < 5.0
    slots = learned(5.0)
    slots.learn(BatchHeld(20, MOST), 0.05, is_late=False)
    assert slots.slots > 5.0


def test_one_slot_is_left() -> None:
    """Batch work does not starve, however late others are."""
    slots = learned(1.05)
    for _ in range(3):
        slots.learn(BatchHeld(1, MOST), 0.05, is_late=True)
        assert slots.slots == 1.0


def test_slots_that_nobody_wants_are_not_earned() -> None:
    """A batch of two requests shows nothing about ten."""
    slots = learned(5.0)
    slots.learn(BatchHeld(4, MOST), 0.05, is_late=False)
    assert slots.slots == 5.0
    slots.learn(BatchHeld(4.5, MOST), 0.05, is_late=False)
    assert slots.slots > 5.0
    slots = learned(9.0)
    slots.learn(BatchHeld(2, MOST), 0.05, is_late=True)
    assert slots.slots == pytest.approx(3 * (1 - LEARNING) ** (1 - TOLERATED))


def test_a_step_without_batch_work_is_no_evidence() -> None:
    """What is late then, others made late."""
    yielding = busy()
    yielding.each.slots = 8.5
    stepped(yielding, 0.2, 0.05, held=0)
    assert yielding.each.slots == 8.5


def test_a_step_counts_once_however_many_it_served() -> None:
    """Eight streams are late together."""
    yielding = warm()
    for _ in range(8):
        yielding.step(PROMISE, 0.2, 1.0, lambda: BatchHeld(9, MOST))
    assert yielding.each.slots == pytest.approx(10 * (1 - LEARNING) ** (1 - TOLERATED))


def test_requests_without_a_promise_teach_nothing() -> None:
    """Steps of batch work show a stall, no lateness."""
    yielding = busy()
    stepped(yielding, 0.5, promise=NO_PROMISE)
    yielding.first_token(NO_PROMISE, 50.0, 50.0, BatchHeld(8, MOST))
    yielding.step(TimedPromise(first_s=1.0, late_ratio=0.05), 0.5, 60.0, lambda: BatchHeld(8, MOST))
    assert yielding.slots(0.0) is None


@pytest.mark.parametrize(("seconds", "is_stall"), [(0.99, False), (1.0, True), (30.0, True)])
def test_a_compile_is_no_evidence(seconds: float, *, is_stall: bool) -> None:
    """A step as long as the promised first token is none, nor are the first tokens that waited for it."""
    yielding = busy()
    yielding.step(PROMISE, 0.01, 50.0, lambda: BatchHeld(8, MOST))
    yielding.step(PROMISE, seconds, 100.0, lambda: BatchHeld(8, MOST))
    assert (yielding.each.slots == math.inf) == is_stall
    yielding.first_token(PROMISE, 2.0, 102.0, BatchHeld(8, MOST))
    assert (yielding.first.slots == math.inf) == is_stall
    yielding.first_token(PROMISE, 2.0, 102.5, BatchHeld(8, MOST))
    assert yielding.first.slots < math.inf


def test_a_cold_engine_is_no_evidence() -> None:
    """Until it has made a further token it may compile; an answer that is one step has no such token."""
    yielding = busy()
    yielding.first_token(PROMISE, 5.0, 10.0, BatchHeld(8, MOST))
    assert yielding.first.slots == math.inf
    yielding.step(PROMISE, 0.2, 11.0, lambda: BatchHeld(8, MOST))
    assert yielding.each.slots == math.inf
    yielding.first_token(PROMISE, 5.0, 12.0, BatchHeld(8, MOST))
    assert yielding.first.slots == math.inf
    yielding.first_token(PROMISE, 5.0, 16.5, BatchHeld(8, MOST))
    assert yielding.first.slots < math.inf
    classic = busy()
    classic.first_token(TimedPromise(first_s=0.25, late_ratio=0.01), 0.3, 10.0, BatchHeld(8, MOST))
    assert classic.first.slots < math.inf


def test_batch_work_alone_sees_a_stall() -> None:
    """Its own steps tell, once the promise of others is known."""
    yielding = busy()
    yielding.step(PROMISE, 0.01, 50.0, lambda: BatchHeld(8, MOST))
    yielding.step(NO_PROMISE, 5.0, 100.0, lambda: BatchHeld(8, MOST))
    yielding.first_token(PROMISE, 5.0, 101.0, BatchHeld(8, MOST))
    assert yielding.first.slots == math.inf


def test_batch_work_has_the_engine_while_no_promised_tenant_is_about() -> None:
    """For as long as a tenant usually returns in, the bound stays."""
    yielding = busy()
    yielding.each.slots = yielding.first.slots = 4.0
    yielding.told = 3
    assert yielding.slots(1000.0) == 3
    yielding.left(Standing.INTERACTIVE, 1000.0)
    assert yielding.slots(1000.0 + MOST_ANTICIPATION_S - 0.1) == 3
    assert yielding.slots(1000.0 + MOST_ANTICIPATION_S) is None
    yielding.came(Standing.FREE)
    assert yielding.slots(2000.0) == 3


@pytest.mark.parametrize("standing", [Standing.SHADOW, Standing.BATCH, Standing.OVER_QUOTA])
def test_spare_and_batch_work_is_not_yielded_to(standing: Standing) -> None:
    """Work over its quota waits for batch work, not the other way."""
    yielding = Yielding()
    yielding.each.slots = 4.0
    yielding.came(standing)
    assert yielding.slots(0.0) is None


def test_interactive_requests_are_asked_for_apart() -> None:
    """Strict batch work stands still for those alone; the last of several counts, and a refused one was not here."""
    yielding = Yielding()
    yielding.came(Standing.PAID)
    assert yielding.about_until(Standing.INTERACTIVE) == -math.inf
    assert yielding.about_until() == math.inf
    yielding.came(Standing.INTERACTIVE)
    yielding.left(Standing.INTERACTIVE)
    assert yielding.about_until(Standing.INTERACTIVE) == -math.inf
    yielding.left(Standing.PAID, 5.0)
    yielding.came(Standing.PAID)
    yielding.left(Standing.PAID)
    assert yielding.about_until() == 5.0 + MOST_ANTICIPATION_S


@given(st.lists(st.tuples(st.booleans(), st.integers(0, MOST)), max_size=300))
def test_it_stays_between_one_and_the_engine(events: list[tuple[bool, int]]) -> None:
    """Whatever happens; one late event never takes more than a tenth of what was held."""
    slots = LearnedSlots()
    for is_late, held in events:
        before = slots.slots
        slots.learn(BatchHeld(held, MOST), 0.05, is_late=is_late)
        assert slots.slots >= 1.0
        assert slots.slots <= MOST + 1 or slots.slots == before
        assert slots.slots > min(before, held + 1) * (1 - LEARNING) or slots.slots == 1.0 or not held
        assert slots.slots <= before or not is_late
        assert slots.slots >= before or is_late


def test_an_engine_that_is_all_batch_is_the_most() -> None:
    """It does not learn beyond what there is."""
    slots = learned(31.9)
    for _ in range(100):
        slots.learn(BatchHeld(31, MOST), 0.05, is_late=False)
    assert slots.slots == MOST
