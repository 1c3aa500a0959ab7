"""A worker's word to a tenant: remembered for its time, and for requests like the refused one."""

from dataclasses import replace

import pytest

from penstock.domain.errors import Overloaded
from penstock.domain.fleet.table import WorkerEntry
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import TenantId, VersionId, WorkerId
from penstock.domain.outcome import TENANT_QUEUE
from penstock.domain.serving.report import Load
from penstock.gateway.calls.demand import ANY, Demand
from penstock.gateway.routing.turned_away import MOST_ASKS, TurnedAway
from tests.support.samples.calls import VERSION
from tests.unit.gateway.routing.test_route import NOBODY, SHORT, House

FLOOD, BOB = TenantId("flood"), TenantId("bob")
W0 = WorkerEntry(id=WorkerId("w0"), url="http://127.0.0.1:1", state=WorkerState.READY)
W1 = replace(W0, id=WorkerId("w1"))
TALK = Demand(FLOOD, body_bytes=500)


def at(known: TurnedAway, demand: Demand, now: float) -> set[str]:
    return set(known.at(VERSION.id, (W0, W1), now, demand))


def test_a_word_is_one_tenants_and_ends_with_its_time() -> None:
    """Others' requests, and the version for everybody, are as before."""
    known = TurnedAway()
    known.note(W0.id, VERSION.id, 10.0, 3.0, TALK)
    assert at(known, TALK, 12.9) == {W0.id}
    assert at(known, TALK, 13.0) == set()
    assert at(known, TALK._replace(tenant=BOB), 12.0) == set()
    assert at(known, ANY, 12.0) == set()


@pytest.mark.parametrize(
    ("asked", "refused"),
    [
        (TALK._replace(body_bytes=499), False),
        (TALK._replace(body_bytes=501), True),
        (TALK._replace(deadline_s=5.0), True),
    ],
)
def test_smaller_requests_are_not_concerned(asked: Demand, refused: bool) -> None:
    """A large request that found no room says nothing of a small one."""
    known = TurnedAway()
    known.note(W0.id, VERSION.id, 0.0, 3.0, TALK)
    assert bool(at(known, asked, 1.0)) is refused


@pytest.mark.parametrize(("deadline_s", "refused"), [(4.0, True), (5.0, True), (6.0, False), (0.0, False)])
def test_more_patient_requests_are_not_concerned(deadline_s: float, refused: bool) -> None:
    """A caller in a hurry that would have been late says nothing of one that waits."""
    known = TurnedAway()
    known.note(W0.id, VERSION.id, 0.0, 3.0, TALK._replace(deadline_s=5.0))
    assert bool(at(known, TALK._replace(deadline_s=deadline_s), 1.0)) is refused


def test_later_words_widen_it_and_do_not_prolong_it() -> None:
    """Callers that come when they were told meet the worker, which keeps their place."""
    known = TurnedAway()
    known.note(W0.id, VERSION.id, 0.0, 3.0, TALK)
    known.note(W0.id, VERSION.id, 1.0, 30.0, TALK._replace(body_bytes=100))
    assert at(known, TALK._replace(body_bytes=100), 2.9) == {W0.id}
    assert at(known, TALK, 3.0) == set()
    known.note(W0.id, VERSION.id, 4.0, 3.0, TALK._replace(body_bytes=900))
    assert at(known, TALK, 5.0) == set(), "a new word, not the old one"


def test_all_workers_must_have_said_it() -> None:
    """One that has not may have room: it is asked, and the others are not."""
    house = House(W0, W1)
    house.router.turned_away(WorkerId("w0"), VERSION.id, 3.0, TALK)
    assert house.router.refusal([VERSION.id], TALK) is None
    picked = {house.router.pick(house.version, SHORT, lambda _: None, NOBODY, TALK).id for _ in range(20)}
    assert picked == {"w1"}
    house.router.turned_away(WorkerId("w1"), VERSION.id, 8.0, TALK)
    refusal = house.router.refusal([VERSION.id], TALK)
    assert isinstance(refusal, Overloaded)
    assert (refusal.reason, refusal.retry_after_s) == (TENANT_QUEUE, 3.0)
    with pytest.raises(Overloaded, match="of this tenant wait already"):
        house.router.pick(house.version, SHORT, lambda _: None, NOBODY, TALK)
    assert house.router.refusal([VERSION.id], TALK._replace(tenant=BOB)) is None
    assert house.router.refusal([], TALK) is None


def test_ends_let_others_ask_again() -> None:
    """A tenant's own ends alone, at that version, while it is refused: two requests each, up to a bound."""
    known = TurnedAway()
    known.ended(VERSION.id, FLOOD, 0.0)
    assert known.ask(VERSION.id, FLOOD) is False
    known.note(W0.id, VERSION.id, 0.0, 3.0, TALK)
    known.ended(VERSION.id, BOB, 1.0)
    known.ended(VersionId("other@1"), FLOOD, 1.0)
    assert known.may_ask(VERSION.id, FLOOD) is False
    known.ended(VERSION.id, FLOOD, 1.0)
    assert [known.ask(VERSION.id, FLOOD) for _ in range(3)] == [True, True, False]
    for _ in range(MOST_ASKS):
        known.ended(VERSION.id, FLOOD, 1.0)
    assert sum(known.ask(VERSION.id, FLOOD) for _ in range(MOST_ASKS + 1)) == MOST_ASKS
    known.ended(VERSION.id, FLOOD, 3.0)
    assert known.may_ask(VERSION.id, FLOOD) is False, "the word is over: everybody asks"


def test_one_that_asks_again_meets_the_worker() -> None:
    """It is neither refused early nor at the choice of a worker; the next one is."""
    house = House(W0)
    house.router.turned_away(W0.id, VERSION.id, 3.0, TALK)
    assert house.router.asks_again(VERSION.id, FLOOD) is False
    house.router.ended(VERSION.id, FLOOD)
    assert house.router.refusal([VERSION.id], TALK) is None
    assert house.router.asks_again(VERSION.id, FLOOD) is True
    assert house.router.pick(house.version, SHORT, lambda _: None, NOBODY, ANY).id == W0.id
    assert house.router.asks_again(VERSION.id, FLOOD) is True
    assert isinstance(house.router.refusal([VERSION.id], TALK), Overloaded)


def test_refused_callers_are_told_to_come_one_after_another() -> None:
    """A hundred callers that all come back after a second find room for a few: each is told a later time."""
    known = TurnedAway()
    known.note(W0.id, VERSION.id, 0.0, 60.0, TALK)
    assert known.tell_s(VERSION.id, [W0.id], 0.0, TALK) == 60.0
    for second in range(40):
        known.ended(VERSION.id, FLOOD, 0.5 * second)
    known.note(W0.id, VERSION.id, 61.0, 1.0, TALK)
    known.ended(VERSION.id, FLOOD, 20.0)
    waits = [known.tell_s(VERSION.id, [W0.id], 61.0, TALK) for _ in range(20)]
    assert waits == sorted(waits)
    assert waits[-1] == pytest.approx(20 * 0.5, rel=0.1)
    known.ended(VERSION.id, FLOOD, 61.5)
    assert known.tell_s(VERSION.id, [W0.id], 61.5, TALK) < 21 * 10


def test_a_full_worker_refuses_a_flooding_tenant_for_its_flood() -> None:
    """One worker refuses the tenant's own queue and the other is full: that is no lack of capacity."""
    full = replace(W1, load=Load(waiting=10_000))
    house = House(W0, full)
    house.router.turned_away(W0.id, VERSION.id, 3.0, TALK)
    with pytest.raises(Overloaded) as refused:
        house.router.pick(house.version, SHORT, lambda _: None, NOBODY, TALK)
    assert refused.value.reason == TENANT_QUEUE
    other = House(replace(W0, load=Load(waiting=10_000)), full)
    with pytest.raises(Overloaded) as refused:
        other.router.pick(other.version, SHORT, lambda _: None, NOBODY, TALK._replace(tenant=BOB))
    assert refused.value.reason is None
