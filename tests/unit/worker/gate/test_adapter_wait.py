"""How a request met its adapter: there already, waited for a slot, or loaded; the queue is no part of it."""

import asyncio

import pytest

from penstock.domain.ids import NO_VERSION, RequestId, VersionId
from penstock.domain.serving.report import Adapted, Met
from penstock.worker.gate.queue_wait import AdapterWait, QueueWait
from penstock.worker.gate.queueing.adapter_slots import AdapterSlots
from penstock.worker.gate.queueing.residents import Residents
from penstock.worker.gate.queueing.work import Work
from tests.unit.worker.gate.queueing.test_adapters_in_the_queue import Site

A, B, C = (VersionId(f"{name}@000000000000") for name in "abc")


def work(adapter: VersionId) -> Work:
    return Site.work("r", adapter)


@pytest.fixture
def slots() -> AdapterSlots:
    """Return one slot; A is in it, B in memory."""
    residents = Residents(4)
    for one in (A, B):
        residents.loaded(one, 0.0)
        residents.ready(one, 0.0)
    found = AdapterSlots(1, residents)
    found.enter(A, 1.0)
    return found


def test_who_finds_its_adapter_in_a_slot_waits_for_nothing_of_it(slots: AdapterSlots) -> None:
    """However long it waits for others; a free slot is as good."""
    assert AdapterWait(slots, work(A), 2.0).ended(9.0) == Adapted(met=Met.HIT)
    slots.leave(A)
    assert AdapterWait(slots, work(B), 3.0).ended(9.0) == Adapted(met=Met.HIT)


def test_who_waits_for_a_slot_waits_until_its_adapter_has_one(slots: AdapterSlots) -> None:
    """What it waits after that is a queue; without one it has waited for that all the time."""
    wait, other = AdapterWait(slots, work(B), 2.0), AdapterWait(slots, work(B), 2.0)
    assert wait.ended(4.0) == Adapted(met=Met.QUEUED, waited_s=2.0)
    slots.leave(A)
    slots.enter(B, 5.0)
    assert [one.ended(8.0).waited_s for one in (wait, other)] == [3.0, 3.0]


def test_who_waits_for_a_load_waits_until_it_was_found_right(slots: AdapterSlots) -> None:
    """A load that is under way counts from when the request came."""
    wait = AdapterWait(slots, work(C), 2.0)
    slots.residents.begin(C, 2.5)
    slots.residents.loaded(C, 3.0)
    assert wait.ended(3.5) == Adapted(met=Met.LOADED, waited_s=1.5)
    slots.residents.ready(C, 4.0)
    assert wait.ended(7.0) == Adapted(met=Met.LOADED, waited_s=2.0)


async def test_an_answer_tells_it_where_an_adapter_is_asked_for() -> None:
    """Beside the wait of which it is a part; a request for the base says nothing of adapters."""
    site, now = Site(), [0.0]

    async def receive() -> dict[str, object]:
        await asyncio.Event().wait()
        return {}

    first = QueueWait(site.queue, Site.work("first", A), receive, lambda: now[0])
    base = QueueWait(site.queue, Site.work("base", NO_VERSION), receive, lambda: now[0])
    assert [await one.until_admitted() for one in (first, base)] == [None, None]
    second = QueueWait(site.queue, Site.work("second", B), receive, lambda: now[0])
    waiting = asyncio.ensure_future(second.until_admitted())
    await asyncio.sleep(0)
    now[0] = 3.0
    site.queue.leave(RequestId("first"), 3.0)
    assert await waiting is None
    assert [one.report.adapted for one in (first, base, second)] == [
        Adapted(met=Met.HIT),
        None,
        Adapted(met=Met.QUEUED, waited_s=3.0),
    ]
    assert second.report.waited is not None
    assert second.report.waited.waited_s == 3.0
