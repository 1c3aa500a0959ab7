"""Requests for a version that sleeps: a real gateway, a real Postgres, and a stub engine that wakes with the table."""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx
import pytest
from tritonclient.grpc import aio as triton

from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.demand import PostgresDemand
from penstock.connectors.postgres.tables import PostgresTables
from penstock.domain.fleet.demand import HeldNow
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.tenancy.tenant import Plan
from penstock.telemetry import names
from tests.support.gateways.dispatch import until
from tests.support.gateways.oip_grpc import text
from tests.support.gateways.process import GatewayProcess, started
from tests.support.histories.site import Customer, Site, site
from tests.support.patience import patient
from tests.support.platforms.readings import reading

pytestmark = [pytest.mark.integration]

SLEEPING, READY = WorkerState.SLEEPING, WorkerState.READY
TENANTS = ("a", "b")


@dataclass
class Town:
    """A site with one version that sleeps and wakes on the test's order."""

    site: Site
    gateway: GatewayProcess
    heard: list[HeldNow] = field(default_factory=list)

    async def table(self, state: WorkerState, restart_s: float = 2.0) -> None:
        """Publish a table in which both workers are in this state."""
        async with Database(self.site.postgres.dsn, max_connections=1) as database:
            tables = PostgresTables(database)
            before = await tables.latest()
            (one,) = before.versions
            workers = tuple(replace(worker, state=state) for worker in one.workers)
            version = replace(one, workers=workers, restart_s=restart_s, max_num_seqs=8)
            await tables.publish(replace(before, number=before.number + 1, versions=(version,)))
        number = before.number + 1
        await until(lambda: reading(self.gateway.metrics_url, names.TABLE_NUMBER.name, {}) == number)

    @property
    def held(self) -> float:
        """Return how many requests the gateway holds."""
        return reading(self.gateway.metrics_url, names.HELD_REQUESTS.name, {})

    @property
    def in_flight(self) -> float:
        """Return how many requests it has admitted and not settled."""
        return reading(self.gateway.metrics_url, names.IN_FLIGHT.name, {})

    def http(self, tenant: str = "a") -> httpx.AsyncClient:
        headers = {"authorization": f"Bearer {self.site.secrets[tenant]}"}
        return httpx.AsyncClient(base_url=self.gateway.url, headers=headers, timeout=patient(20), trust_env=False)

    async def ask(self, tenant: str = "a", **headers: str) -> httpx.Response:
        async with self.http(tenant) as http:
            return await http.post("/v1/chat/completions", json=BODY, headers=headers)

    async def until_held(self, number: int) -> None:
        await until(lambda: self.held == number)


BODY: dict[str, object] = {"model": "toy", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 4}
STREAM = {**BODY, "stream": True}


@pytest.fixture(scope="module")
def place() -> Iterator[tuple[Site, GatewayProcess]]:
    """Yield a gateway with frequent signs of life in its streams."""
    # Not pytest's own folder: that is closed to the account of a Postgres that root starts.
    with tempfile.TemporaryDirectory(prefix="penstock-holding-", ignore_cleanup_errors=True) as folder:
        customers = tuple(Customer(name=name, plan=Plan(), org="group", org_plan=Plan()) for name in TENANTS)
        with site(Path(folder), customers) as running:
            gateway = started(
                running.home,
                PENSTOCK_LIMITS_URL=running.redis.url,
                PENSTOCK_DATABASE_URL=running.postgres.dsn,
                PENSTOCK_STREAM_HEARTBEAT_S="0.2",
                PENSTOCK_HOLD_REQUESTS="4",
            )
            with gateway as made:
                yield running, made


@pytest.fixture
async def town(place: tuple[Site, GatewayProcess]) -> AsyncIterator[Town]:
    """Yield the site with its version asleep and no request held, and hear the gateway's wishes meanwhile."""
    made = Town(*place)
    listening = asyncio.create_task(
        PostgresDemand(made.site.postgres.dsn).run(lambda told: made.heard.extend(told.held))
    )
    for engine in made.site.engines:
        engine.behave()
    await made.table(SLEEPING)
    await made.until_held(0)
    yield made
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)


@asynccontextmanager
async def asking(town: Town, number: int = 1, tenant: str = "a") -> AsyncIterator[list[asyncio.Task[httpx.Response]]]:
    before = town.held
    tasks = [asyncio.create_task(town.ask(tenant)) for _ in range(number)]
    await town.until_held(int(before) + number)
    yield tasks
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_request_waits_for_the_wake_and_is_answered(town: Town) -> None:
    """The controller is told at once and each second; the request goes on with the table, and reports its time of
    waiting.
    """
    began = time.monotonic()
    async with asking(town) as (task,):
        await until(lambda: len(town.heard) >= 2)
        assert {(one.requests, one.version) for one in town.heard} == {(1, "toy@0123456789ab")}
        assert town.in_flight == 1
        await town.table(READY)
        answer = await task
    assert answer.status_code == 200
    assert 500 < answer.json()["penstock"]["stages_ms"]["wake"] < (time.monotonic() - began) * 1e3
    await until(lambda: town.in_flight == 0)
    told = len(town.heard)
    await asyncio.sleep(1.5)
    assert len(town.heard) == told, "nobody waits any more"


async def test_a_held_stream_shows_that_it_lives(town: Town) -> None:
    """Its heartbeats come before its first token, as in any silence of a stream; then it goes on as if never held."""
    async with town.http() as http, http.stream("POST", "/v1/chat/completions", json=STREAM) as answer:
        lines = answer.aiter_lines()
        assert await anext(lines) == ": waiting"
        await town.table(READY)
        rest = [line async for line in lines if line and line != ": waiting"]
    assert (answer.status_code, rest[-1]) == (200, "data: [DONE]")
    assert sum("delta" in line for line in rest) >= 4


async def test_who_leaves_frees_its_place_and_its_slots(town: Town) -> None:
    """Over HTTP and over gRPC alike: nothing is held, nothing is in flight, and nothing reaches an engine."""
    async with asking(town):
        assert town.in_flight == 1
    await until(lambda: (town.held, town.in_flight) == (0, 0))
    address = (town.site.home.root / "run/gateway.grpc.addr").read_text().strip().rpartition("/")[2]
    async with triton.InferenceServerClient(address) as client:
        headers = {"authorization": f"Bearer {town.site.secrets['a']}"}
        call = asyncio.create_task(client.infer("toy", [text("hello")], headers=headers, parameters={"max_tokens": 2}))
        await town.until_held(1)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        await until(lambda: (town.held, town.in_flight) == (0, 0))


async def test_one_tenant_does_not_fill_the_places(town: Town) -> None:
    """Half of them are the most that one has; it hears when to come back, and how many wait."""
    async with asking(town, 2):
        refused = await town.ask()
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "2")
        assert "2 requests wait" in refused.json()["error"]["message"]
        async with asking(town, 1, "b"):
            pass


async def test_a_deadline_before_the_wake_is_refused_at_once(town: Town) -> None:
    """The wish is told all the same, so that a returning caller finds the model awake."""
    await town.table(SLEEPING, restart_s=30.0)
    refused = await town.ask(**{"x-penstock-deadline-ms": "3000"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "deadline_unreachable")
    assert refused.headers["retry-after"] == "30"
    await until(lambda: bool(town.heard))


async def test_a_worker_that_fell_asleep_before_the_table_said_so(town: Town) -> None:
    """Its gate sends the request back, which is held then and answered by the woken worker."""
    await town.table(READY)
    for engine in town.site.engines:
        engine.behave(mode="refuse", reason="sleeping")
    task = asyncio.create_task(town.ask())
    await until(lambda: sum(int(engine.stats["requests"]) for engine in town.site.engines) >= 2)
    await town.table(SLEEPING)
    await town.until_held(1)
    for engine in town.site.engines:
        engine.behave()
    await town.table(READY)
    assert (await task).status_code == 200


async def test_nothing_wakes_while_the_database_is_away(town: Town) -> None:
    """Waiting callers are told so, in honest words and with a time; when it is back requests are held as before."""
    async with asking(town) as (task,):
        town.site.postgres.stop()
        try:
            refused = await task
            assert refused.status_code == 503
            assert "database" in refused.json()["error"]["message"]
            assert refused.headers["retry-after"] == "2"
            assert (await town.ask()).status_code == 503
        finally:
            await asyncio.to_thread(town.site.postgres.start)
    task = asyncio.create_task(town.ask())
    await town.until_held(1)
    await town.table(READY)
    assert (await task).status_code == 200
