"""Comes last in this folder: what all fault tests together left behind, which must be nothing."""

import asyncio
import json
import time
from collections import Counter

import asyncpg
import pytest

from penstock.connectors.postgres.embedded import dsn_of
from tests.support.failures.table import FaultTable
from tests.support.platforms.books import Books
from tests.support.platforms.local import Platform

pytestmark = pytest.mark.integration

PLANTED = "planted-0"
STRAY = """
insert into ledger (request, tenant, key, version, digest, api, priority, outcome, prompt_tokens, cached_tokens,
                    output_tokens, exact, gpu_s, cost, opened_at, closed_at)
values ($1, 'nobody', 'k', 'v', 'd', 'a', 'standard', 'ok', 0, 0, 0, true, 0, 0, $2, $2)
"""


def test_the_books_find_what_is_wrong(books: Books) -> None:
    """A line without a row, a hold without an end and a row without a line are each found."""
    assert books.redis is not None
    platform, store = books.platform, books.redis
    books.balance()
    line = {"event": "request", "request_id": PLANTED, "stages_ms": {"admission": 1}, "outcome": "ok"}
    log = platform.home / "logs" / "gateway-planted.log"
    log.write_text(json.dumps(line) + "\n")
    with store.client() as redis:
        redis.zadd("penstock:{0}:tenant:nobody:concurrent", {PLANTED: (time.time() + 60) * 1e3})
        found = " ".join(books.findings())
        redis.delete("penstock:{0}:tenant:nobody:concurrent")
    log.unlink()
    assert f"{PLANTED} is logged as ok, None" in found
    assert "tenant:nobody:concurrent still holds 1" in found
    books = Books(platform, store)
    asyncio.run(plant(platform))
    assert f"{PLANTED} has a row (ok) and no line" in books.findings()


async def plant(platform: Platform) -> None:
    connection = await asyncpg.connect(dsn_of(platform.home / "postgres"))
    await connection.execute(STRAY, PLANTED, time.time())
    await connection.close()


def test_nothing_is_leaked_by_any_fault(reckoning: list[Books], faults: FaultTable) -> None:
    """Every admitted request of the fault tests has one row, and no reservation of theirs is held."""
    if not reckoning:
        pytest.skip("no fault test ran before")
    rows = [row for books in reckoning for row in books.rows.values()]
    ends = Counter(str(row["outcome"]) for row in rows)
    assert len({row["request"] for row in rows}) == len(rows)
    assert sum(len(books.logged) + len(books.left_behind) for books in reckoning) == len(rows)
    stores = {id(books.redis): books.redis for books in reckoning if books.redis is not None}
    assert [held for store in stores.values() for held in store.rest().held.values() if held] == []
    told = ", ".join(f"{count} {end}" for end, count in ends.most_common())
    faults.add(f"reservations leaked by {len(reckoning)} fault tests and modules", f"0, of {len(rows)} rows: {told}")
