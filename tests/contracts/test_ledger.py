"""What every ledger promises, held against memory and a real Postgres."""

import asyncio
import math
import random
from dataclasses import replace
from datetime import UTC, datetime
from typing import Protocol

import pytest

from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.ledger import PostgresLedger
from penstock.domain.errors import BadRequest, Conflict
from penstock.domain.ids import KeyId, RequestId, TenantId, VersionId
from penstock.domain.money import MicroUsd
from penstock.domain.outcome import Outcome
from penstock.domain.tenancy import budget
from penstock.domain.tenancy.ledger import (
    Cursor,
    Ended,
    Forgiven,
    ForgivenSink,
    LedgerReader,
    LedgerRow,
    LedgerSink,
    Span,
)
from penstock.domain.tenancy.tenant import SHADOWS, Priority
from tests.twins.ledger import MemoryLedger

EVER = Span(begin=0.0, end=1e12)


class Ledger(LedgerSink, LedgerReader, ForgivenSink, Protocol):
    """All that it is to anybody."""


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.integration)])
def ledger(request: pytest.FixtureRequest) -> Ledger:
    if request.param == "memory":
        return MemoryLedger()
    return PostgresLedger(request.getfixturevalue("database"))


def row(number: int, *, tenant: str = "t", key: str = "k", cost: int = 7, outcome: Outcome = Outcome.OK) -> LedgerRow:
    return LedgerRow(
        request=RequestId(f"r{number:04d}"),
        tenant=TenantId(tenant),
        key=KeyId(key),
        version=VersionId("m@1"),
        digest="d",
        api="/v1/chat/completions",
        priority=Priority.STANDARD,
        outcome=outcome,
        prompt_tokens=10,
        cached_tokens=4,
        output_tokens=5,
        exact=True,
        gpu_s=0.25,
        cost=MicroUsd(cost),
        opened_at=float(number),
        closed_at=float(number) + 0.5,
        continued=number % 3,
    )


async def test_a_request_has_one_row_however_often_it_is_delivered(ledger: Ledger) -> None:
    """The first row stays; doubled deliveries, also at the same time, add nothing."""
    rows = [row(i) for i in range(20)]
    await asyncio.gather(*(ledger.append(rows[i % 5 :]) for i in range(10)))
    await ledger.append([replace(row(3), cost=MicroUsd(999))])
    assert list(await ledger.page(EVER)) == rows


@pytest.mark.parametrize("wrong", [{"cached_tokens": 11}, {"output_tokens": -1}, {"gpu_s": -1.0}, {"cost": -1}])
async def test_a_row_that_cannot_be_is_refused_with_its_whole_call(ledger: Ledger, wrong: dict[str, float]) -> None:
    """So the deliverer knows that none of them is stored, and finds the one by trying fewer."""
    with pytest.raises(BadRequest):
        await ledger.append([row(1), replace(row(2), **wrong), row(3)])  # type: ignore[arg-type]  # numbers all
    assert await ledger.page(EVER) == ()
    await ledger.append([row(1)])
    assert await ledger.page(EVER) == (row(1),)


async def test_pages_follow_one_another_without_gap_or_overlap(ledger: Ledger) -> None:
    """An export reads everything once, page by page, in order of the requests' ends."""
    rows = [row(i, tenant="ab"[i % 2]) for i in range(25)]
    await ledger.append(list(reversed(rows)))
    seen: list[LedgerRow] = []
    cursor: Cursor | None = None
    while page := await ledger.page(EVER, tenant=TenantId("a"), after=cursor, limit=4):
        seen += page
        cursor = Cursor(page[-1].closed_at, page[-1].request)
    assert seen == rows[::2]


async def test_spend_is_the_sum_of_the_rows(ledger: Ledger) -> None:
    """Counters can be rebuilt: per key, over any span, to the micro-dollar."""
    await ledger.append([row(i, key="xy"[i % 2], cost=i) for i in range(10)])
    spent = {line.key: line.cost for line in await ledger.spent(Span(begin=2.0, end=8.0))}
    assert spent == {"x": 2 + 4 + 6, "y": 3 + 5 + 7}


async def test_spend_counts_when_a_request_was_opened(ledger: Ledger) -> None:
    """A request that ends after midnight was admitted by the budget of the day before, and counts there."""
    await ledger.append([replace(row(1), opened_at=86_399.0, closed_at=86_402.0)])
    assert [line.cost for line in await ledger.spent(Span(begin=0.0, end=86_400.0))] == [7]
    assert await ledger.spent(Span(begin=86_400.0, end=2 * 86_400.0)) == ()


async def test_sums_of_a_period_equal_those_of_its_rows(ledger: Ledger) -> None:
    """After deliveries at the same time that overlap and repeat, days and months hold exactly what their rows say."""
    chance, begin = random.Random(5), datetime(2026, 1, 30, tzinfo=UTC).timestamp()
    rows = [
        replace(
            row(i, tenant=chance.choice("ab"), key=chance.choice("xyz"), cost=chance.randrange(99)),
            opened_at=begin + chance.random() * 4 * 86_400,
        )
        for i in range(400)
    ]
    batches = [chance.sample(rows, 60) for _ in range(20)]
    await asyncio.gather(*(ledger.append(sorted(batch, key=lambda r: r.request)) for batch in [*batches, rows]))
    for window in (budget.day, budget.month):
        for offset in range(5):
            asked = window(begin + offset * 86_400)
            assert await ledger.spent_in(asked.name) == await ledger.spent(asked.span), asked.name
    total = await ledger.spent_in("2026-01") + await ledger.spent_in("2026-02")
    assert sum(line.cost for line in total) == sum(one.cost for one in rows)


async def test_the_last_moment_of_a_day_is_that_days(ledger: Ledger) -> None:
    """Sums and rows draw the line between days at the same place, to the last bit."""
    last = math.nextafter(86_400.0, 0.0)
    await ledger.append([replace(row(1), opened_at=last), replace(row(2), opened_at=86_400.0)])
    assert [line.cost for line in await ledger.spent_in("1970-01-01")] == [7]
    assert [line.cost for line in await ledger.spent_in("1970-01-02")] == [7]
    assert [line.cost for line in await ledger.spent_in("1970-01")] == [14]


async def test_usage_is_summed_by_version_and_outcome(ledger: Ledger) -> None:
    """A tenant sees its own sums only."""
    await ledger.append([row(1), row(2), row(3, outcome=Outcome.CANCELLED), row(4, tenant="other")])
    lines = {line.outcome: line for line in await ledger.usage(TenantId("t"), EVER)}
    assert (lines[Outcome.OK].requests, lines[Outcome.OK].cost, lines[Outcome.OK].prompt_tokens) == (2, 14, 20)
    assert lines[Outcome.CANCELLED].requests == 1
    assert len(lines) == 2


async def test_ends_are_summed_by_version_and_outcome_from_an_hour_on(ledger: Ledger) -> None:
    """An hour counts whole, over all tenants; a row that is delivered twice counts once."""
    late = math.nextafter(7200.0, 0.0)
    rows = [row(1), replace(row(2), closed_at=3600.0), replace(row(3, tenant="u"), closed_at=late)]
    bad = replace(row(4, outcome=Outcome.ENGINE_ERROR), closed_at=9000.0, version=VersionId("m@2"))
    await ledger.append([*rows, bad])
    await ledger.append(rows)
    two = VersionId("m@2")
    assert await ledger.ended(5000.0) == (
        Ended(version=VersionId("m@1"), outcome=Outcome.OK, requests=2),
        Ended(version=two, outcome=Outcome.ENGINE_ERROR, requests=1),
    )
    assert await ledger.ended(7200.0) == (Ended(version=two, outcome=Outcome.ENGINE_ERROR, requests=1),)
    assert sum(one.requests for one in await ledger.ended(0.0)) == 4


async def test_copies_are_paid_for_and_spend_no_error_budget(ledger: Ledger) -> None:
    """Shadow copies have rows and sums of money, and no caller has seen how they ended."""
    await ledger.append([row(1), row(2, tenant=SHADOWS, outcome=Outcome.ENGINE_ERROR)])
    assert [one.outcome for one in await ledger.ended(0.0)] == [Outcome.OK]
    (line,) = await ledger.usage(SHADOWS, EVER)
    assert (line.requests, line.cost) == (1, 7)


async def test_what_callers_did_themselves_is_in_no_sum_that_budgets_read(ledger: Ledger) -> None:
    """Forgiven ends are left out, before or after their rows come, of their own hour, and no more than there are."""
    bad = Outcome.ENGINE_ERROR
    own = Forgiven(hour=0, version=VersionId("m@1"), outcome=bad, requests=2)
    await ledger.forgive([own])
    await ledger.append([row(i, outcome=bad) for i in range(3)] + [row(9)])
    await ledger.append([replace(row(10, outcome=bad), closed_at=3600.0)])
    good = Ended(version=VersionId("m@1"), outcome=Outcome.OK, requests=1)
    assert await ledger.ended(0.0) == (Ended(version=VersionId("m@1"), outcome=bad, requests=2), good)
    await ledger.forgive([own, replace(own, version=VersionId("m@2"))])
    assert await ledger.ended(0.0) == (Ended(version=VersionId("m@1"), outcome=bad, requests=1), good)
    await ledger.forgive([])
    await ledger.forgive([replace(own, hour=1)])
    assert await ledger.ended(0.0) == (good,)
    assert len(await ledger.page(EVER)) == 5


@pytest.mark.parametrize("wrong", [{"requests": 0}, {"requests": -1}, {"outcome": Outcome.OK}])
async def test_no_good_end_is_forgiven_and_none_is_taken_back(ledger: Ledger, wrong: dict[str, int]) -> None:
    """A budget can't be made smaller, or a promise worse, by what is forgiven."""
    own = Forgiven(hour=0, version=VersionId("m@1"), outcome=Outcome.ENGINE_ERROR, requests=2)
    await ledger.append([row(1)])
    with pytest.raises(BadRequest):
        await ledger.forgive([replace(own, **wrong)])  # type: ignore[arg-type]  # any field
    assert [one.requests for one in await ledger.ended(0.0)] == [1]


@pytest.mark.parametrize("statement", ["update ledger set cost = 0", "delete from ledger", "truncate ledger"])
async def test_the_database_itself_refuses_changes(database: Database, statement: str) -> None:
    """Not even a hand on the database can quietly change what was written."""
    await PostgresLedger(database).append([row(1)])
    with pytest.raises(Conflict):
        await database.rows(statement)


@pytest.mark.integration
@pytest.mark.parametrize(
    "statement",
    [
        "update ledger_sum set cost = 0",
        "update ledger_sum set cost = cost + 1",
        "insert into ledger_sum (period, tenant, key, cost, requests) values ('1970-01', 'u', 'k', 1, 1)",
        "delete from ledger_sum",
        "truncate ledger_sum",
        "update outcome_sum set requests = requests + 1",
        "insert into outcome_sum (hour, version, outcome, requests) values (0, 'm@1', 'engine_error', 9)",
        "delete from outcome_sum",
        "truncate outcome_sum",
    ],
)
async def test_what_budgets_read_is_written_by_the_ledger_alone(database: Database, statement: str) -> None:
    """Finding 17: the sums behind budgets can't be lowered, raised, added or taken away by hand, and still grow."""
    ledger = PostgresLedger(database)
    await ledger.append([row(1)])
    with pytest.raises(Conflict):
        await database.rows(statement)
    await ledger.append([row(2)])
    (found,) = await database.rows("select cost, requests from ledger_sum where period = '1970-01-01'")
    assert (found["cost"], found["requests"]) == (14, 2)


@pytest.mark.integration
@pytest.mark.parametrize(
    "statement",
    ["update forgiven_sum set requests = 1", "delete from forgiven_sum", "truncate forgiven_sum"],
)
async def test_what_was_forgiven_only_grows(database: Database, statement: str) -> None:
    """The sums that budgets leave out can't be lowered or taken away by hand."""
    own = Forgiven(hour=0, version=VersionId("m@1"), outcome=Outcome.ENGINE_ERROR, requests=2)
    await PostgresLedger(database).forgive([own])
    with pytest.raises(Conflict):
        await database.rows(statement)
