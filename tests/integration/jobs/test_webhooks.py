"""Webhooks delivered by real processes to a real receiver: beside ones that hang, through deaths, over three days."""

import asyncio
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.webhooks import PostgresEndpoints
from penstock.domain.ids import KeyId, TenantId
from penstock.domain.jobs.ids import RunnerId
from penstock.jobs.schedule import DELAYS_S, JITTER
from tests.support.patience import patient, until
from tests.support.sealing import FixedKeys
from tests.support.webhooks.deliverer import attempted, deliveries, forever, pass_time

pytestmark = pytest.mark.integration
KEY, SECRET = b"k" * 32, b"s" * 32
SHOP = TenantId("shop")
BY = KeyId("key-1")
MINUTE_S = 60.0
HANGING, TENANTS, OTHERS = 1_000, 64, 100


@contextmanager
def program(name: str, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        [sys.executable, "-m", f"tests.support.webhooks.{name}", *arguments], stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@pytest.fixture
def received() -> Iterator[tuple[int, list[list[str]]]]:
    """Start a receiver; return its port and its growing list of requests as path, id and time."""
    with program("receiver") as process:
        assert process.stdout is not None
        port, seen = int(process.stdout.readline()), list[list[str]]()
        lines = process.stdout

        def follow() -> None:
            for line in lines:
                seen.append(line.split())

        reader = threading.Thread(target=follow)
        reader.start()
        yield port, seen
        process.kill()
        reader.join()


@pytest.fixture
async def endpoints(database: Database) -> PostgresEndpoints:
    """Return the endpoints' store, in a database in which runner 1 lives."""
    await database.rows("insert into runner (name, seen_at, started_at) values ('r', 0, 0)")
    return PostgresEndpoints(database, FixedKeys(KEY))


async def tell(database: Database, tenant: str, count: int = 1) -> None:
    await database.rows(
        "select tell($1, 'job.succeeded', 'job_' || n, '') from generate_series(1, $2) as n", tenant, count
    )


async def test_a_thousand_receivers_that_hang_delay_nobody(
    database: Database, endpoints: PostgresEndpoints, received: tuple[int, list[list[str]]]
) -> None:
    """Others' first attempts end within a second (p99), of endpoints never seen before, last in every order."""
    port, seen = received
    for number in range(HANGING):
        tenant = TenantId(f"a{number % TENANTS:03}")
        await endpoints.create(tenant, BY, f"http://127.0.0.1:{port}/hang/{number}", ["*"], SECRET)
    for number in range(OTHERS):
        await endpoints.create(TenantId(f"z{number}"), BY, f"http://127.0.0.1:{port}/ok/{number}", ["*"], SECRET)
    work = deliveries(database, KEY, RunnerId(1))
    running = asyncio.create_task(forever(work))
    for number in range(TENANTS):
        await tell(database, f"a{number:03}", 8)
    await asyncio.to_thread(until, "all hang", lambda: sum("/hang/" in one[0] for one in seen) >= HANGING)
    for number in range(OTHERS):
        await tell(database, f"z{number}")
        await asyncio.sleep(0.03)
    await asyncio.to_thread(until, "others are told", lambda: sum("/ok/" in one[0] for one in seen) >= OTHERS)
    await asyncio.sleep(patient(3 * work.every_s))
    running.cancel()
    rows = await database.rows(
        "select d.ended_at - d.created_at as seconds from webhook_delivery d join webhook_endpoint e "
        "on e.id = d.endpoint where e.tenant like 'z%' order by 1"
    )
    late = [row["seconds"] for row in rows]
    assert min(late) > 0
    assert late[98] <= patient(1.0), f"p50 {late[49]:.2f} s, p99 {late[98]:.2f} s"


async def test_three_days_of_a_receiver_that_fails(
    database: Database, endpoints: PostgresEndpoints, received: tuple[int, list[list[str]]]
) -> None:
    """In virtual time: ten attempts, each when it is due and not before, under one id; then it is off and told so."""
    port, seen = received
    endpoint = await endpoints.create(SHOP, BY, f"http://127.0.0.1:{port}/500/a", ["*"], SECRET)
    other = await endpoints.create(SHOP, BY, f"http://127.0.0.1:{port}/ok/b", ["webhook.disabled"], SECRET)
    await tell(database, SHOP)
    work = deliveries(database, KEY, RunnerId(1))
    for attempt, delay_s in enumerate(DELAYS_S, 1):
        if delay_s > MINUTE_S:
            await pass_time(database, delay_s - MINUTE_S)
            await attempted(work)
            assert len(seen) == attempt - 1
        await pass_time(database, delay_s * JITTER + MINUTE_S)
        await attempted(work)
        assert sum(path == "/500/a" for path, *_ in seen) == attempt
    (failed,) = await endpoints.deliveries(endpoint.id, "", 0, 9)
    assert (failed.state, failed.attempt, failed.last_status) == ("failed", 10, 500)
    off = await endpoints.find(SHOP, endpoint.id)
    assert off is not None
    assert (off.is_on, off.off_reason) == (False, "failing")
    await attempted(work)
    assert {one[1] for one in seen[:10]} == {failed.event.id}
    assert seen[10][0] == "/ok/b"
    assert [one.event.object for one in await endpoints.deliveries(other.id, "delivered", 0, 9)] == [endpoint.id]


async def test_a_runner_killed_while_it_delivers(
    database_dsn: str, database: Database, endpoints: PostgresEndpoints, received: tuple[int, list[list[str]]]
) -> None:
    """Its events are delivered by another within seconds, at least once, each under its own id."""
    port, seen = received
    hanging = await endpoints.create(SHOP, BY, f"http://127.0.0.1:{port}/hang/a", ["*"], SECRET)
    await tell(database, SHOP, 12)
    with program("deliverer", database_dsn, KEY.hex()):
        await asyncio.to_thread(until, "it delivers", lambda: bool(seen))
    assert {one.state for one in await endpoints.deliveries(hanging.id, "sending", 0, 20)} == {"sending"}
    await database.rows("update webhook_endpoint set url = $1", f"http://127.0.0.1:{port}/ok/a")
    with program("deliverer", database_dsn, KEY.hex()):
        took = await asyncio.to_thread(
            until, "another delivers", lambda: len({one[1] for one in seen if one[0] == "/ok/a"}) == 12
        )
    assert took < patient(10.0)
    told = {one.event.id for one in await endpoints.deliveries(hanging.id, "", 0, 20)}
    assert {one[1] for one in seen} == told
    again = Counter(one[1] for one in seen)
    assert max(again.values()) >= 2
