"""Who is waited for, how long, and what it costs whoever waits."""

import math
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.ids import RequestId, TenantId
from penstock.domain.tenancy.standing import Standing
from penstock.worker.gate.queueing.admission import AdmissionQueue
from penstock.worker.gate.queueing.anticipation import Absent, Expected, Patience
from penstock.worker.gate.queueing.constants import (
    ANTICIPATION_PART,
    LOOK_AHEAD,
    MOST_ANTICIPATION_S,
    MOST_KNOWN,
)
from penstock.worker.gate.queueing.slots import EngineSize
from penstock.worker.gate.queueing.work import Work

READER, FLOOD = TenantId("reader"), TenantId("flood")
MOST_S = 2.0
ANSWER_S = 4.0
SIZE = EngineSize(max_seqs=8, kv_blocks=400, block_size=16, watermark=0.0, prefill_tokens=10_000)


def after_pauses(*pauses_s: float) -> tuple[Expected, float]:
    """Return a reader that has paused so before and has just left, and the second."""
    expected, now = Expected(), 0.0
    for pause_s in pauses_s:
        expected.left(READER, Standing.PAID, now)
        now += pause_s
        expected.came(READER, now)
        now += 1.0
    expected.left(READER, Standing.PAID, now)
    return expected, now


def test_nobody_is_waited_for_before_its_pauses_are_known() -> None:
    """A tenant that has asked once may never ask again."""
    expected, now = after_pauses()
    assert list(expected.soon(MOST_S, now)) == []


def test_who_pauses_briefly_is_expected_for_a_while() -> None:
    """It is waited for from when it left, no longer than is allowed, and not once it has come."""
    expected, left_at = after_pauses(0.3, 0.3)
    (one,) = expected.soon(MOST_S, left_at + 1.9)
    assert replace(one, pause_s=0.3) == Absent(READER, Standing.PAID, left_at, 0.3)
    assert one.pause_s == pytest.approx(0.3)
    assert list(expected.soon(MOST_S, left_at + MOST_S)) == []
    expected.came(READER, left_at + 0.1)
    assert list(expected.soon(MOST_S, left_at + 0.2)) == []


def test_who_usually_stays_away_longer_is_not_waited_for() -> None:
    """It would probably not come in time; and where answers are quick, hardly anybody would."""
    slow, now = after_pauses(1.5, 1.5)
    assert list(slow.soon(MOST_S, now)) == []
    quick, now = after_pauses(0.3, 0.3)
    assert list(quick.soon(0.5, now)) == []


def test_one_long_pause_does_not_outweigh_many_short_ones() -> None:
    """After a lunch a reader is soon expected again."""
    expected, now = after_pauses(*[0.3] * 20, 3600.0)
    assert [one.tenant for one in expected.soon(MOST_S, now)] == [READER]


def test_what_is_remembered_is_bounded() -> None:
    """A million tenants that come twice and once leave no more than a bounded trace."""
    expected = Expected()
    for i in range(3 * MOST_KNOWN):
        tenant = TenantId(f"t{i}")
        expected.left(tenant, Standing.PAID, i)
        expected.came(tenant, i + 0.5)
        expected.left(tenant, Standing.PAID, i + 0.6)
    assert len(expected._habits) == MOST_KNOWN
    assert len(list(expected.soon(MOST_S, 3 * MOST_KNOWN))) <= LOOK_AHEAD == len(expected._away)


@given(st.lists(st.tuples(st.floats(0.001, 3.0), st.booleans()), min_size=1, max_size=200))
def test_waiting_takes_half_of_the_time_at_most(steps: list[tuple[float, bool]]) -> None:
    """Whoever is expected when: what was waited is no more than half of the time, but for one go."""
    patience, now, waited_s, until = Patience(), 0.0, 0.0, None
    for span_s, wants in steps:
        now += span_s
        if until is not None:  # whoever waits asks again at that second at the latest
            waited_s += min(until, now) - (now - span_s)
            if until < now:
                patience.lasts_until(MOST_S, until)
                patience.rest(until)
        if wants:
            until = patience.lasts_until(MOST_S, now)
        else:
            patience.rest(now)
            until = None
        assert until is None or until <= now + MOST_S
        assert waited_s <= now / 2 + MOST_S


@dataclass
class House:
    """A queue, its timer, and who was let in when."""

    queue: AdmissionQueue = field(default_factory=lambda: AdmissionQueue(SIZE, pace=1000.0))
    now: float = 0.0
    inside: list[str] = field(default_factory=list)
    timers: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Be the queue's timer, and let it know how long answers take."""
        self.queue.look_later = lambda seconds: self.timers.append(self.now + seconds)
        self.queue.forecast.stay.learn(ANSWER_S, self.a_work("any", FLOOD).cost)

    def a_work(self, name: str, tenant: TenantId, standing: Standing = Standing.PAID) -> Work:
        """Return a request; all cost the same."""
        return Work(
            request=RequestId(name),
            tenant=tenant,
            standing=standing,
            weight=1.0,
            prompt_tokens=100,
            expected_output_tokens=50,
        )

    def arrive(self, name: str, tenant: TenantId, standing: Standing = Standing.PAID) -> None:
        """Bring a request; its prompt is through at once."""
        work = self.a_work(name, tenant, standing)
        self.queue.arrive(work, self.now, lambda: self.inside.append(name), lambda *_: None)
        if name in self.inside:
            self.queue.progressed(work.request, 1, self.now)

    def leave(self, name: str) -> None:
        """End a request as expected: it cost what was thought."""
        self.queue.progressed(RequestId(name), 49, self.now)
        self.queue.leave(RequestId(name), self.now)

    def let_the_reader_pause(self) -> None:
        """The reader's answer ends, and a moment later one of the flood's."""
        self.now = 1.3
        self.leave("r1")
        self.now = 1.4
        self.leave("f0")

    def look(self) -> None:
        """Let the next timer ring."""
        self.now = self.timers.pop(0)
        self.queue.look(self.now)


def with_a_reader(standing: Standing, beside: int) -> House:
    """Return a house whose reader paused 0.3 s and asked again, while a flood of so many came."""
    house = House()
    house.arrive("r0", READER, standing)
    house.leave("r0")
    house.now = 0.3
    house.arrive("r1", READER, standing)
    for i in range(beside):
        house.arrive(f"f{i}", FLOOD)
    return house


def with_a_flood(standing: Standing = Standing.PAID) -> House:
    """Return a house with a reader and a flood that fills the other slots, but for the one that is kept."""
    house = with_a_reader(standing, 20)
    assert house.inside == ["r0", "r1", *(f"f{i}" for i in range(6))]
    return house


def test_a_floods_next_prompt_lets_the_expected_one_go_first() -> None:
    """A slot of the flood's comes free in the reader's pause: the reader goes first, then the flood."""
    house = with_a_flood()
    house.let_the_reader_pause()
    assert house.inside[-1] == "f5"
    house.now = 1.6
    house.arrive("r2", READER)
    assert house.inside[-2:] == ["r2", "f6"]


def test_a_flood_goes_on_by_itself_when_nobody_comes() -> None:
    """The queue asks to be looked at again: no other event is needed, and the wait is a part of an answer's time."""
    house = with_a_flood()
    house.let_the_reader_pause()
    assert house.timers[-1] == pytest.approx(1.3 + ANTICIPATION_PART * house.queue.forecast.stay.of(200))
    house.look()
    assert house.inside[-1] == "f7"
    assert house.now < 1.3 + ANSWER_S


def test_readers_that_take_turns_do_not_hold_a_flood_for_ever() -> None:
    """One of two is always expected; a flood with three slots of its own still uses two of them, and more."""
    house, ends = House(), dict[str, float]()
    for i in range(100):
        house.arrive(f"f{i}", FLOOD)
    for tick in range(1000):
        house.now = 0.1 * tick
        if tick % 2 == 0:
            house.queue.leave(RequestId(f"r{tick - 2}"), house.now)  # one leaves as the other comes
            usual = house.a_work(f"r{tick}", TenantId(f"reader{tick // 2 % 2}"))
            tiny = replace(usual, prompt_tokens=1, expected_output_tokens=1)
            house.queue.arrive(tiny, house.now, lambda: None, lambda *_: None)
        for name in [name for name in house.inside if name[0] == "f" and name not in ends]:
            ends[name] = house.now + ANSWER_S
        for name in [name for name, end in ends.items() if end <= house.now]:
            house.leave(name)
            ends[name] = math.inf
        while house.timers and min(house.timers) <= house.now:
            house.timers.remove(min(house.timers))
            house.queue.look(house.now)
    assert len(ends) >= 2.2 * 100.0 / ANSWER_S


def test_under_a_coarse_clock_a_look_still_comes() -> None:
    """A second that hardly moves before a look is due: the queue asks for it now, never in the past."""
    house = with_a_flood()
    house.now = 1.3
    house.leave("r1")
    until = house.now + ANTICIPATION_PART * house.queue.forecast.stay.of(200)
    house.now = math.nextafter(until, 0.0)
    house.leave("f0")
    house.timers.clear()
    house.queue.look(house.now)
    assert house.timers
    assert all(at >= house.now for at in house.timers)
    house.look()
    assert house.inside[-1] == "f7"


def test_refusals_do_not_make_a_wait_longer() -> None:
    """Who is sent away on arrival changes nothing inside: the time that a prompt stands back goes on being counted."""
    house = with_a_flood()
    house.let_the_reader_pause()
    for _ in range(18):
        house.now += 0.1
        late = replace(house.a_work("late", FLOOD), deadline_at=house.now + 0.001)
        house.queue.arrive(late, house.now, lambda: None, lambda *_: None)
    assert house.queue._anticipation._patience.lasts_until(MOST_S, house.now) == pytest.approx(1.3 + MOST_S)


def test_nobody_is_waited_for_longer_than_a_few_seconds() -> None:
    """However long answers take: a flood of long ones waits as briefly, and wakes by itself."""
    house = with_a_flood()
    for _ in range(50):
        house.queue.forecast.stay.learn(60.0, 200.0)
    house.let_the_reader_pause()
    assert house.timers == [pytest.approx(1.3 + MOST_ANTICIPATION_S)]
    house.look()
    assert house.inside[-1] == "f7"


def test_a_flood_that_stands_back_leaves_no_more_free_than_the_reserve() -> None:
    """Three of eight slots are free at most: with a fourth the flood goes on, whoever is expected."""
    house = with_a_flood()
    house.let_the_reader_pause()
    assert house.inside[-1] == "f5"
    house.leave("f1")
    assert house.inside[-1] == "f6"


def test_who_has_more_inside_than_waiting_is_no_flood() -> None:
    """Two requests side by side wait for nobody who pauses, as long as there are slots."""
    house = with_a_flood()
    for i in range(10, 20):
        house.queue.leave(RequestId(f"f{i}"), house.now)
    house.let_the_reader_pause()
    assert house.inside[-1] == "f7"


def test_a_lower_standing_waits_for_a_better_one() -> None:
    """A paid flood makes way for an interactive reader too."""
    house = with_a_flood(Standing.INTERACTIVE)
    house.let_the_reader_pause()
    assert house.inside[-1] == "f5"


def test_a_better_standing_waits_for_no_lower_one() -> None:
    """A paid flood does not make way for a batch job's next request."""
    house = with_a_reader(Standing.BATCH, 20)
    house.now = 1.3
    house.leave("r1")
    house.now, many = 1.4, len(house.inside)
    house.leave("f0")
    assert len(house.inside) == many + 1


def test_who_had_more_than_others_is_not_waited_for() -> None:
    """Asking again at once is no way to more than one's share: a reader ahead of the flood waits like anybody."""
    house = with_a_flood()
    house.queue.fair.correct(house.a_work("r1", READER), 5000.0)
    house.let_the_reader_pause()
    assert house.inside[-1] == "f7"


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0.01, 3.0), st.booleans()), min_size=5, max_size=120))
def test_whoever_stands_back_has_a_timer(steps: list[tuple[int, float, bool]]) -> None:
    """After anything that may happen: where a prompt stands back, the queue has asked to be looked at in time."""
    house, names = House(), [READER, FLOOD, FLOOD, TenantId("third")]
    for number, (who, span_s, comes) in enumerate(steps):
        while house.timers and min(house.timers) <= house.now + span_s:
            house.timers.sort()
            house.look()
        house.now += span_s
        here = [name for name in house.inside if RequestId(name) in house.queue._entries]
        if comes or not here:
            house.arrive(f"{number}", names[who])
        else:
            house.leave(here[number % len(here)])
        look_at = house.queue.look_at
        assert look_at is None or min(house.timers) <= look_at
    while house.timers:
        house.timers.sort()
        house.look()
    assert house.queue.look_at is None
