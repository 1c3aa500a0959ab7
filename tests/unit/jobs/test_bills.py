"""Ledger rows of jobs are kept for the end of their attempt; all others go to the spool."""

import asyncio
from dataclasses import replace

from penstock.domain.ids import KeyId, RequestId, TenantId, VersionId
from penstock.domain.money import FREE, MicroUsd, Price
from penstock.domain.outcome import Outcome
from penstock.domain.tenancy.ledger import LedgerRow, Opening, close
from penstock.domain.tenancy.tenant import Priority
from penstock.domain.tokens import Usage
from penstock.jobs.bills import Bills

PRICE = Price(prompt_per_mtok=MicroUsd(1_000_000), cached_per_mtok=MicroUsd(0), output_per_mtok=MicroUsd(1_000_000))
OPENING = Opening(
    request=RequestId("job_1-1"),
    tenant=TenantId("acme"),
    key=KeyId("k"),
    version=VersionId("m@1"),
    digest="1",
    api="/v1/chat/completions",
    priority=Priority.BATCH,
    prompt_tokens=10,
    price=PRICE,
    opened_at=1.0,
    answers_only=True,
)
USED = Usage(prompt_tokens=3, output_tokens=4, exact=True)


class Spooled:
    """A journal that remembers what came."""

    def __init__(self) -> None:
        self.rows: list[RequestId] = []

    def opened(self, opening: Opening) -> None:
        self.rows.append(opening.request)

    def delivered(self, request: RequestId, tokens: int) -> None:
        self.rows.append(request)

    def closed(self, row: LedgerRow) -> None:
        self.rows.append(row.request)


def row(outcome: Outcome) -> LedgerRow:
    return close(OPENING, outcome, USED, gpu_s=1.0, now=2.0)


async def test_a_jobs_row_waits_for_its_end() -> None:
    """An expected request leaves nothing in the spool, however late its row comes."""
    spool = Spooled()
    bills = Bills(spool)
    bills.expect(OPENING.request)
    bills.opened(OPENING)
    bills.delivered(OPENING.request, 2)
    asyncio.get_running_loop().call_later(0.01, bills.closed, row(Outcome.OK))
    assert await bills.row(OPENING.request) == row(Outcome.OK)
    assert spool.rows == []


async def test_a_request_that_was_never_admitted_has_no_row() -> None:
    """A refusal before admission has nothing to bill, and is not waited for."""
    bills = Bills(Spooled())
    bills.expect(OPENING.request)
    assert await bills.row(OPENING.request) is None


async def test_other_requests_go_to_the_spool() -> None:
    """Shadow copies of a runner's answers are billed to the platform as ever."""
    spool = Spooled()
    bills, copy = Bills(spool), replace(OPENING, request=RequestId("shadow-1"))
    bills.opened(copy)
    bills.delivered(copy.request, 1)
    bills.closed(close(copy, Outcome.OK, USED, gpu_s=1.0, now=2.0))
    assert spool.rows == ["shadow-1"] * 3


def test_only_an_answer_costs() -> None:
    """One that a filter ended is an answer; any other end of such a request is free, and keeps its tokens."""
    assert row(Outcome.OK).cost == row(Outcome.FILTERED).cost == 7
    lost = row(Outcome.ENGINE_ERROR)
    assert (lost.cost, lost.output_tokens) == (FREE, 4)
    assert close(replace(OPENING, answers_only=False), Outcome.CANCELLED, USED, gpu_s=1.0, now=2.0).cost == 7


async def test_a_running_attempt_tells_its_bill_so_far() -> None:
    """Nothing before its admission or its first token, then prompt and tokens at its price, as a guess."""
    bills = Bills(Spooled())
    bills.expect(OPENING.request)
    assert bills.so_far(OPENING.request, 4, 2.0) is None
    bills.opened(replace(OPENING, answers_only=False))
    none, some = bills.so_far(OPENING.request, 0, 2.0), bills.so_far(OPENING.request, 4, 2.0)
    assert none is not None
    assert some is not None
    assert (none.cost, some.cost, some.output_tokens, some.exact) == (FREE, 14, 4, False)
