"""Real controller processes with fake workers: failover, adoption, replacement, a database that dies."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import httpx
import pytest

from penstock.connectors.postgres.audit import PostgresAudit
from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.embedded import EmbeddedPostgres
from penstock.connectors.postgres.registry import PostgresRegistry
from penstock.connectors.postgres.tables import PostgresTables
from penstock.connectors.postgres.tenancy import PostgresTenancy
from penstock.domain.fleet.versions import Deployment
from penstock.domain.tenancy.keys import Purpose, derive, mint
from penstock.domain.tenancy.tenant import OPERATORS, Role, Tenant
from tests.integration.conftest import FAILED
from tests.support.audit_chains import Chained
from tests.support.controllers.process import ControlledHome, controlled_home
from tests.support.failures.stopped import stopped
from tests.support.failures.wrong_clock import wrong_by
from tests.support.patience import patient, until
from tests.support.samples import control_plane as things
from tests.support.variants import drilled

pytestmark = pytest.mark.integration
VERSION = things.version()
T = TypeVar("T")


@pytest.fixture
async def home(request: pytest.FixtureRequest, tmp_path: Path, database_dsn: str) -> AsyncIterator[ControlledHome]:
    """Yield a home with a migrated database and a registered version; print the log of a test that failed."""
    with controlled_home(tmp_path / "home", database_dsn, lease_s="1.0", drain_grace_s="1.0") as found:
        await ask(found, lambda registry, _: registry.add_version(VERSION, "sig", things.act()))
        yield found
        if request.node.stash.get(FAILED, False):
            sys.stdout.write(found.log())


async def ask(home: ControlledHome, work: Callable[[PostgresRegistry, PostgresTables], Awaitable[T]]) -> T:
    async with Database(home.database_url, max_connections=1) as database:
        return await work(PostgresRegistry(database), PostgresTables(database))


async def deploy(home: ControlledHome, replicas: int) -> None:
    deployment = Deployment(version=VERSION.id, replicas=replicas)
    await ask(home, lambda registry, _: registry.put_deployment(deployment, things.act()))


async def ready(home: ControlledHome) -> set[str]:
    """Return the workers that the newest table says are ready."""
    table = await ask(home, lambda _, tables: tables.latest())
    return {worker.id for version in table.versions for worker in version.workers if worker.state.serves}


async def until_ready(home: ControlledHome, check: Callable[[set[str]], bool], within_s: float = 60.0) -> set[str]:
    async with asyncio.timeout(patient(within_s)):
        while not check(found := await ready(home)):  # noqa: ASYNC110  what is watched is another process
            await asyncio.sleep(0.05)
    return found


async def admin(home: ControlledHome) -> httpx.AsyncClient:
    """Return a client with an admin key of this home."""
    pepper = derive(bytes.fromhex("ab" * 32), Purpose.PEPPER)
    async with Database(home.database_url, max_connections=1) as database:
        store = PostgresTenancy(database)
        await store.add_tenant(Tenant(id=OPERATORS, name="Operators"), things.act())
        secret, key = mint(OPERATORS, pepper=pepper, now=1.0, role=Role.ADMIN)
        await store.add_key(key, things.act())
    headers = {"authorization": f"Bearer {secret}"}
    return httpx.AsyncClient(base_url=f"{home.address()}/admin/v1", headers=headers, trust_env=False)


async def test_a_stand_by_takes_over_from_a_killed_leader(home: ControlledHome) -> None:
    """When the leader is killed, the other controller leads in under five seconds, and no worker is touched."""
    leader = home.controller()
    until("the first leads", lambda: home.address() != "")
    first_address = home.address()
    home.controller()
    await deploy(home, 2)
    serving = await until_ready(home, lambda found: len(found) == 2)
    pids = home.workers()
    leader.kill()
    until("the second leads", lambda: home.address() != first_address, within_s=5.0)
    await asyncio.sleep(2.0)
    assert await ready(home) == serving == set(pids)
    assert home.workers() == pids


@pytest.mark.parametrize("wrong_s", [pytest.param(-90.0, marks=pytest.mark.drill), 90.0])
async def test_a_successor_goes_on_with_the_chain_of_a_killed_leader(home: ControlledHome, wrong_s: float) -> None:
    """Acts are written meanwhile, and the second's clock is wrong: each is linked once, signed and shipped."""
    leader = home.controller()
    until("the first leads", lambda: home.address() != "")
    first_address = home.address()
    home.controller(**wrong_by(wrong_s))
    async with Database(home.database_url, max_connections=2) as database:
        chained = Chained(database, home.root)
        writing = asyncio.create_task(write_acts(database))
        try:
            await until_linked(database, 50)
            leader.kill()
            await asyncio.to_thread(until, "the second leads", lambda: home.address() != first_address, within_s=20.0)
            await until_linked(database, 1 + await links(database))
        finally:
            writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        (acts,) = await database.rows("select count(*)::bigint as n from audit_event")
        await until_linked(database, acts["n"])
        async with asyncio.timeout(patient(90)):
            # The first head makes the key.
            while not (chained.is_signed and (await chained.verified()).files):  # noqa: ASYNC110  it is the controllers'
                await asyncio.sleep(0.5)
        done = await chained.verified()
        assert (done.report.findings, done.last) == ([], acts["n"])


async def write_acts(database: Database) -> None:
    while True:
        await PostgresAudit(database).note(things.act())
        await asyncio.sleep(0.01)


async def links(database: Database) -> int:
    (found,) = await database.rows("select coalesce(max(number), 0)::bigint as n from audit_link")
    return int(found["n"])


async def until_linked(database: Database, most: int) -> None:
    async with asyncio.timeout(patient(60)):
        while await links(database) < most:  # noqa: ASYNC110  links are the controllers'
            await asyncio.sleep(0.05)


async def test_a_restarted_controller_adopts_its_workers(home: ControlledHome) -> None:
    """After `kill -9` of the controller a new one finds the workers by their records and starts no doubles."""
    first = home.controller()
    await deploy(home, 2)
    serving = await until_ready(home, lambda found: len(found) == 2)
    pids = home.workers()
    first.kill()
    first.wait()
    address = home.address()
    home.controller()
    until("the second leads", lambda: home.address() != address)
    await asyncio.sleep(2.0)
    assert home.workers() == pids
    assert await ready(home) == serving
    assert home.log().count('"worker_started"') == 2


async def test_a_controller_that_ends_in_good_order_lets_workers_live(home: ControlledHome) -> None:
    """SIGTERM ends the controller with code 0, and its workers go on."""
    controller = home.controller()
    await deploy(home, 1)
    await until_ready(home, lambda found: len(found) == 1)
    controller.send_signal(signal.SIGTERM)
    assert controller.wait(timeout=10) == 0
    (pid,) = home.workers().values()
    os.kill(pid, 0)


@pytest.mark.parametrize("pause_s", [*drilled([0.6, 1.2, 2.0]), 5.0])
async def test_a_pause_of_the_controller_is_no_evidence(home: ControlledHome, pause_s: float) -> None:
    """It heard no heartbeat while it stood still: no worker leaves the table, none is replaced, and it still leads."""
    controller = home.controller()
    await deploy(home, 2)
    serving = await until_ready(home, lambda found: len(found) == 2)
    pids, address = home.workers(), home.address()
    for _ in range(2):
        with stopped(controller.pid):
            await asyncio.sleep(pause_s)
        until_s = asyncio.get_running_loop().time() + 2.0
        while asyncio.get_running_loop().time() < until_s:
            assert await ready(home) == serving
            await asyncio.sleep(0.02)
    assert (home.workers(), home.address()) == (pids, address)
    assert home.log().count('"leads"') == 1
    assert "no heartbeat in time" not in home.log()


async def test_a_pause_of_a_worker_is_no_evidence_against_its_engine(home: ControlledHome) -> None:
    """An agent that stood still for longer than its lease never leaves the table: its engine may answer."""
    home.controller()
    await deploy(home, 1)
    serving = await until_ready(home, lambda found: len(found) == 1)
    (pid,) = home.workers().values()
    with stopped(pid):
        until_s = asyncio.get_running_loop().time() + 1.4
        while asyncio.get_running_loop().time() < until_s:
            assert await ready(home) == serving
            await asyncio.sleep(0.02)
    await asyncio.sleep(1.5)
    assert await ready(home) == serving
    assert "no heartbeat in time" not in home.log()


async def test_a_killed_worker_is_replaced(home: ControlledHome) -> None:
    """After `kill -9` of a worker another one is ready within seconds, and the dead one has left the table."""
    home.controller()
    await deploy(home, 1)
    (worker,) = await until_ready(home, lambda found: len(found) == 1)
    os.kill(home.workers()[worker], signal.SIGKILL)
    successor = await until_ready(home, lambda found: len(found) == 1 and worker not in found)
    assert set(home.workers()) == successor


async def test_a_frozen_worker_serves_until_it_is_replaced(home: ControlledHome) -> None:
    """A worker with a stopped agent stays in the table, since its engine may answer, until its successor is ready."""
    home.controller()
    await deploy(home, 1)
    (worker,) = await until_ready(home, lambda found: len(found) == 1)
    os.kill(home.workers()[worker], signal.SIGSTOP)
    assert len(await until_ready(home, lambda found: worker not in found)) == 1
    until("its process ended", lambda: worker not in home.workers())


async def test_a_rolling_restart_keeps_everybody_served(home: ControlledHome) -> None:
    """Through the operators' API all workers are replaced, and the table never holds fewer ready ones than wanted."""
    home.controller()
    await deploy(home, 2)
    old = await until_ready(home, lambda found: len(found) == 2)
    async with await admin(home) as operator:
        assert (await operator.post(f"/deployments/{VERSION.id}/restart")).status_code == 202
        least = 2
        async with asyncio.timeout(20.0):
            while (found := await ready(home)) & old or len(found) != 2:
                least = min(least, len(found))
                await asyncio.sleep(0.02)
        status = (await operator.get("/status")).json()
    assert least == 2
    assert (status["leader"], status["failed_ticks"]) == (True, 0)


async def test_scaling_to_nothing_drains_everybody(home: ControlledHome) -> None:
    """With no workers wanted all of them drain, and their records go."""
    home.controller()
    await deploy(home, 2)
    await until_ready(home, lambda found: len(found) == 2)
    await deploy(home, 0)
    until("all workers ended", lambda: home.workers() == {})
    assert await ready(home) == set()


async def test_a_controller_waits_for_its_database(own_server: EmbeddedPostgres, tmp_path: Path) -> None:
    """Started before the database, the controller answers that it lives, and leads as soon as it can."""
    with controlled_home(tmp_path / "home", own_server.dsn) as home:
        controller = home.controller()
        until("it says that the database is away", lambda: "database_is_away" in home.log())
        assert controller.poll() is None
        own_server.start()
        until("it leads", lambda: home.address() != "")


async def test_a_killed_database_stops_nothing(own_server: EmbeddedPostgres, tmp_path: Path) -> None:
    """With Postgres killed under the ticking loop, workers live on untouched, and afterwards the loop goes on."""
    dsn = own_server.start()
    with controlled_home(tmp_path / "home", dsn) as home:
        controller = home.controller()
        until("it leads", lambda: home.address() != "")
        await ask(home, lambda registry, _: registry.add_version(VERSION, "sig", things.act()))
        await deploy(home, 2)
        await until_ready(home, lambda found: len(found) == 2)
        pids = home.workers()
        os.kill(own_server.pid(), signal.SIGKILL)
        await asyncio.sleep(3.0)
        async with httpx.AsyncClient(trust_env=False) as client:
            assert (await client.get(f"{home.address()}/healthz")).status_code == 200
        assert home.workers() == pids
        own_server.start()
        await deploy(home, 3)
        await until_ready(home, lambda found: len(found) == 3)
        assert pids.items() <= home.workers().items()
        assert controller.poll() is None
