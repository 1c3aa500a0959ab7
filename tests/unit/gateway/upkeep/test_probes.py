"""What a gateway says when it is asked how it is."""

import json
import random
from dataclasses import replace

import pytest

from penstock.domain.fleet.table import WEIGHT_TOTAL, Route, RoutingTable, Share, WorkerEntry
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import Alias, TenantId, WorkerId
from penstock.domain.tenancy.keys import mint
from penstock.domain.tenancy.tenant import KeyRing, Tenant
from penstock.filters.book import Book, CurrentPacks
from penstock.gateway.dispatch.breaker import Breakers
from penstock.gateway.identity.keyring import Keyring
from penstock.gateway.routing.current import CurrentTable
from penstock.gateway.upkeep.probes import Probes
from penstock.intake.connection import Drain
from penstock.telemetry import pages
from tests.support.clock import ManualClock
from tests.support.samples.calls import VERSION

WORKER = WorkerEntry(id=WorkerId("w"), url="http://127.0.0.1:1", state=WorkerState.READY)
ROUTE = Route(alias=Alias("a"), shares=(Share(version=VERSION.id, weight=WEIGHT_TOTAL),))


class Asked:
    """A gateway's probes, and what they look at."""

    def __init__(self, clock: ManualClock) -> None:
        self.table, self.packs, self.drain = CurrentTable(), CurrentPacks(), Drain()
        self.keys = Keyring(peppers=(b"p",), salt_key=b"s", now=clock.now)
        breakers = Breakers(random.Random(0))
        self.table.on_change(lambda _, after: breakers.learn(after.table.versions, after.at))
        self.probes = Probes(
            table=self.table, keys=self.keys, packs=self.packs, breakers=breakers, clock=clock, drain=self.drain
        )

    def know(self) -> None:
        _, key = mint(TenantId("t"), pepper=b"p", now=0.0)
        self.keys.replace(KeyRing(keys=(key,), tenants=(Tenant(id=key.tenant, name="T"),)))
        self.packs.replace(Book())

    def put(self, *workers: WorkerEntry, routes: tuple[Route, ...] = (ROUTE,)) -> None:
        version = replace(VERSION, workers=workers)
        number = self.table.number + 1
        self.table.swap(RoutingTable(number=number, made_at=0.0, routes=routes, versions=(version,)), 0.0)

    async def ask(self, path: str) -> tuple[int, str]:
        status, _, body = await self.probes.pages[path]()
        return status, json.loads(body)["status"]


@pytest.fixture
def gateway(clock: ManualClock) -> Asked:
    return Asked(clock)


async def test_ready_says_what_is_missing(gateway: Asked) -> None:
    """Without table, keys or packs nobody could be served; an empty table is one, and whoever drains takes nothing."""
    assert await gateway.ask(pages.READY) == (503, "no routing table yet")
    gateway.table.swap(RoutingTable(number=1, made_at=0.0), 0.0)
    assert await gateway.ask(pages.READY) == (503, "no API keys yet")
    gateway.know()
    gateway.probes = replace(gateway.probes, packs=CurrentPacks())
    assert await gateway.ask(pages.READY) == (503, "no safety packs yet")
    gateway.probes.packs.replace(Book())
    assert await gateway.ask(pages.READY) == (200, "ready")
    gateway.drain.is_on = True
    assert await gateway.ask(pages.READY) == (503, "draining")
    assert await gateway.ask(pages.LIVE) == (200, "ok")


async def test_the_region_serves_where_a_worker_of_an_alias_could_answer(gateway: Asked) -> None:
    """Finding 3.17: a region whose workers are gone, or that no alias leads to, is none to send requests to."""
    gateway.know()
    nobody = (503, "no worker of any alias could answer")
    gateway.put(replace(WORKER, state=WorkerState.LOADING))
    assert await gateway.ask(pages.REGION) == nobody
    gateway.put(WORKER, routes=())
    assert await gateway.ask(pages.REGION) == nobody
    gateway.put(WORKER)
    assert await gateway.ask(pages.REGION) == (200, "serving")
    gateway.put()
    assert await gateway.ask(pages.REGION) == nobody
    assert await gateway.ask(pages.READY) == (200, "ready")
