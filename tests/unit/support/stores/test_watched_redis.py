"""The watcher sees what the store's own scripts did, in order, and also after the server was lost."""

import asyncio
from pathlib import Path

import pytest

from penstock.connectors.redis.limits import RedisLimits
from penstock.connectors.redis.wire import Wire
from penstock.domain.ids import RequestId
from penstock.domain.tenancy.limits import Draw, Measure, MeterKind
from tests.support.patience import until
from tests.support.stores.watched_redis import Watch, WatchedRedis

pytestmark = pytest.mark.integration

SPEND = "tenant:acme:spend:2026-11"
SLOTS = "tenant:acme:concurrent"
DRAWS = [
    Draw(key=SPEND, kind=MeterKind.BUDGET, measure=Measure.SPEND, amount=5, capacity=100, window_ends_in_s=9.0),
    Draw(key=SLOTS, kind=MeterKind.SLOTS, measure=Measure.CONCURRENCY, amount=1, capacity=2),
]


async def use(url: str) -> None:
    """Open two leases, renew one, settle the other, and correct the meter."""
    wire = Wire(url)
    store = RedisLimits(wire)
    for name in ("a-1", "b-1"):
        assert (await store.reserve(RequestId(name), DRAWS, 10.0)).granted
    await store.renew([RequestId("b-1")], 20.0)
    await store.settle(RequestId("a-1"), {Measure.SPEND: 3})
    await store.raise_spent({SPEND: 9})
    await wire.close()


def check(watch: Watch) -> None:
    until("all is seen", lambda: bool(watch.counted), within_s=5)
    first, second = watch.opened[-2:]
    assert (first.lease, second.lease) == ("a-1", "b-1")
    assert [(take.meter, take.amount, take.capacity) for take in first.takes] == [(SPEND, 5, 100), (SLOTS, 1, 2)]
    assert second.due - second.at > 15 > first.due - first.at > 5
    assert (watch.settled[-1].lease, watch.settled[-1].spent) == ("a-1", {SPEND: 3})
    assert (watch.counted[-1].meter, watch.counted[-1].spent) == (SPEND, 9)


def test_what_scripts_do_is_seen(tmp_path: Path) -> None:
    """Leases, renewals, settlements and corrections are seen with their meters, and what is held is counted."""
    with WatchedRedis(tmp_path) as server:
        asyncio.run(use(server.url))
        check(server.watch)
        rest = server.rest()
        assert (rest.spent, rest.held) == ({SPEND: 9}, {f"{SPEND}:due": 1, SLOTS: 1})
        server.kill()
        server.start()
        server.watch.counted.clear()
        asyncio.run(use(server.url))
        check(server.watch)
        assert len(server.watch.opened) == 4
