"""Heartbeats: memory first, the store beside it."""

from dataclasses import replace

import pytest

from penstock.control.fleet.heartbeats import Heartbeats, Listeners, Memory
from penstock.domain.errors import StoreUnavailable
from penstock.domain.fleet.versions import Seen
from penstock.domain.fleet.worker import WorkerEnd, WorkerReport, WorkerState
from tests.support.clock import ManualClock
from tests.support.samples import control_plane as things
from tests.twins.leases import MemoryLeases


class FlakyLeases(MemoryLeases):
    """A store that can be away."""

    def __init__(self) -> None:
        super().__init__()
        self.is_away = False

    async def save(self, seen: object) -> None:
        if self.is_away:
            raise StoreUnavailable
        await super().save(seen)  # type: ignore[arg-type]

    async def load(self, after: float) -> tuple[Seen, ...]:
        if self.is_away:
            raise StoreUnavailable
        return await super().load(after)


async def test_a_heartbeat_is_seen_at_once_and_stored_later(clock: ManualClock) -> None:
    """What was taken is seen before it is stored, and afterwards it is stored."""
    store = MemoryLeases()
    heartbeats = Heartbeats(store, clock)
    heartbeats.take(things.report("w1"))
    assert [one.at for one in await heartbeats.seen()] == [clock.now()]
    assert await store.load(0.0) == ()
    await heartbeats.save()
    assert await store.load(0.0) == await heartbeats.seen() == heartbeats.known


async def test_nothing_is_lost_while_the_store_is_away(clock: ManualClock) -> None:
    """Heartbeats go on in memory, and the next good save stores them."""
    store = FlakyLeases()
    heartbeats = Heartbeats(store, clock)
    store.is_away = True
    heartbeats.take(things.report("w1"))
    with pytest.raises(StoreUnavailable):
        await heartbeats.save()
    assert len(await heartbeats.seen()) == 1
    store.is_away = False
    await heartbeats.save()
    assert len(await store.load(0.0)) == 1


async def test_what_another_controller_took_is_seen_too(clock: ManualClock) -> None:
    """The newer of memory and store counts, for each worker."""
    store = MemoryLeases()
    old, new = things.report("w1", state=WorkerState.LOADING), things.report("w1")
    heartbeats = Heartbeats(store, clock)
    heartbeats.take(old)
    await store.save([things.seen(new, clock.now() + 1), things.seen(things.report("w2"), clock.now())])
    clock.advance(1.0)
    assert [(one.report.worker, one.report.state) for one in await heartbeats.seen()] == [
        ("w1", WorkerState.READY),
        ("w2", WorkerState.READY),
    ]


async def test_the_long_silent_are_forgotten(clock: ManualClock) -> None:
    """After its time a silent worker is gone from memory and store."""
    store = MemoryLeases()
    heartbeats = Heartbeats(store, clock, Memory(keep_s=60.0))
    heartbeats.take(things.report("w1"))
    await heartbeats.save()
    clock.advance(61.0)
    assert await heartbeats.seen() == ()
    await heartbeats.save()
    assert await store.load(0.0) == ()


async def test_only_news_is_news(clock: ManualClock) -> None:
    """A new worker, state or address and memory given back call for a tick at once; mere load does not."""
    news: list[int] = []
    heartbeats = Heartbeats(MemoryLeases(), clock, listeners=Listeners(on_news=lambda: news.append(1)))
    for report, expected in (
        (things.report("w1", state=WorkerState.LOADING), 1),
        (things.report("w1"), 2),
        (things.report("w1", queued_tokens=5), 2),
        (things.report("w1", url="http://127.0.0.1:2"), 3),
        (replace(things.report("w1", url="http://127.0.0.1:2"), holds_memory=False), 4),
    ):
        heartbeats.take(report)
        assert len(news) == expected


def test_an_end_is_told_once(clock: ManualClock) -> None:
    """A worker that drains reports every second why it goes, and counts as one."""
    ended = list[WorkerReport]()
    heartbeats = Heartbeats(MemoryLeases(), clock, listeners=Listeners(on_end=ended.append))
    draining = replace(things.report("w1", state=WorkerState.DRAINING), end=WorkerEnd.NOTICE)
    for report in (things.report("w1"), draining, draining, replace(draining, state=WorkerState.STOPPED)):
        heartbeats.take(report)
    assert ended == [draining]


async def test_a_pause_of_the_controller_makes_no_worker_older(clock: ManualClock) -> None:
    """Nothing could be heard while it stood still; what passes while it is awake counts as ever."""
    awake = ManualClock()
    heartbeats = Heartbeats(MemoryLeases(), clock, awake=awake)
    heartbeats.take(things.report("w1"))
    await heartbeats.seen()
    clock.advance(5.0)
    awake.advance(0.1)
    assert [clock.now() - one.at for one in await heartbeats.seen()] == pytest.approx([0.1])
    clock.advance(4.0)
    awake.advance(4.0)
    assert [clock.now() - one.at for one in await heartbeats.seen()] == pytest.approx([4.1])
