"""The operator's word on what holds while the limits store is away, and the loops that keep money."""

import asyncio
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from penstock.connectors.memory.limits import MemoryLimits
from penstock.connectors.postgres.database import Database, lone
from penstock.connectors.postgres.ledger import PostgresLedger
from penstock.connectors.spool.spool import Spool
from penstock.domain.clock import SystemClock
from penstock.domain.command_error import CommandError
from penstock.domain.ids import VersionId
from penstock.domain.outcome import Outcome
from penstock.domain.tenancy.ledger import Forgiven, LedgerSink
from penstock.domain.tenancy.limits import Measure
from penstock.domain.tenancy.tenant import KeyRing
from penstock.gateway.admission.expectation import OutputExpectation
from penstock.gateway.admission.outage import POLICY, WhenAway, when_away
from penstock.gateway.admission.reservations import Reservations
from penstock.gateway.billing.closing import ForgivenEnds
from penstock.gateway.safety.interventions import KeptTexts
from penstock.gateway.upkeep import accounting as gateway_accounting
from penstock.gateway.upkeep.accounting import Accounting, AccountingParts
from penstock.telemetry.metrics import Metrics
from tests.support.patience import patient

TEXTS = KeptTexts(lambda _: None, asyncio.ensure_future, lambda *_: None)


def test_what_is_not_said_stays() -> None:
    """Each named limit gets its policy, all others keep theirs."""
    assert when_away("") == POLICY
    said = when_away("spend=share, tokens=open")
    assert (said[Measure.SPEND], said[Measure.TOKENS], said[Measure.REQUESTS]) == (
        WhenAway.SHARE,
        WhenAway.OPEN,
        WhenAway.SHARE,
    )


@pytest.mark.parametrize("text", ["spend", "spend=", "money=open", "spend=maybe", "spend=open;tokens=open"])
def test_a_word_that_means_nothing_stops_the_start(text: str) -> None:
    """A typing error must not be found out during an outage."""
    with pytest.raises(CommandError, match="PENSTOCK_LIMITS_WHEN_AWAY"):
        when_away(text)


class Stuck(Spool):
    """A spool whose ledger does not answer until it is let go."""

    def __init__(self, folder: Path, clock: SystemClock) -> None:
        super().__init__(folder, clock)
        self.let_go = asyncio.Event()

    async def deliver(self, sink: LedgerSink, heir: object = None, took: object = None) -> int:
        await self.let_go.wait()
        return 0


class Counting(Reservations):
    """Reservations that count their rounds, the first of which fails."""

    rounds = 0

    async def keep(self) -> None:
        self.rounds += 1
        if self.rounds == 1:
            raise ZeroDivisionError
        await super().keep()


async def test_what_ended_is_settled_before_the_past_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger has its row already, so that a settlement after the count would count it twice."""
    clock, done = SystemClock(), list[str]()
    store, spool = MemoryLimits(clock), Spool(tmp_path, clock)

    class Noting(Reservations):
        async def flush(self) -> None:
            done.append("settled")

    async def rebuild(*_: object) -> None:
        done.append("counted")

    monkeypatch.setattr(gateway_accounting, "rebuild", rebuild)
    reservations = Noting(
        store=store, journal=spool, expectation=OutputExpectation(), clock=clock, spawn=asyncio.ensure_future
    )
    parts = AccountingParts(
        texts=TEXTS,
        reservations=reservations,
        spool=spool,
        meters=store,
        forgiven=ForgivenEnds(clock),
        shared=None,
        clock=clock,
        metrics=Metrics(),
        ledger=partial(lone, "", PostgresLedger),
    )
    money = Accounting(parts=parts)
    ledger = PostgresLedger(Database("postgresql://nobody@/none", max_connections=1))
    await money._round(ledger)
    assert done == []
    money.keys_changed(KeyRing())
    await money._round(ledger)
    await money._round(ledger)
    assert done == ["settled", "counted"]
    monkeypatch.setattr(gateway_accounting, "RECOUNT_S", 0.0)
    await money._round(ledger)
    assert done == ["settled", "counted"] * 2


async def test_what_a_budget_is_to_forgive_outlives_a_database_that_is_away(tmp_path: Path) -> None:
    """What can't be told is told by a later round."""
    clock = SystemClock()
    store, spool, forgiven = MemoryLimits(clock), Spool(tmp_path, clock), ForgivenEnds(clock)
    reservations = Reservations(
        store=store, journal=spool, expectation=OutputExpectation(), clock=clock, spawn=asyncio.ensure_future
    )
    parts = AccountingParts(
        texts=TEXTS,
        reservations=reservations,
        spool=spool,
        meters=store,
        forgiven=forgiven,
        shared=None,
        clock=clock,
        metrics=Metrics(),
        ledger=partial(lone, "", PostgresLedger),
    )
    money = Accounting(parts=parts)
    own = (Forgiven(hour=7, version=VersionId("m@1"), outcome=Outcome.ENGINE_ERROR, requests=3),)
    forgiven.put_back(own)
    assert not await money._round(PostgresLedger(Database("postgresql://nobody@/none", max_connections=1)))
    assert forgiven.take() == own


async def test_a_database_that_hangs_lets_no_hold_lapse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Holds are renewed at their own pace, whatever becomes of the ledger or of one round."""
    monkeypatch.setattr(gateway_accounting, "ROUND_S", 0.001)
    clock = SystemClock()
    store, spool = MemoryLimits(clock), Stuck(tmp_path, clock)
    reservations = Counting(
        store=store, journal=spool, expectation=OutputExpectation(), clock=clock, spawn=asyncio.ensure_future
    )
    dsn = "postgresql://nobody@/none?host=/nonexistent"
    parts = AccountingParts(
        texts=TEXTS,
        reservations=reservations,
        spool=spool,
        meters=store,
        forgiven=ForgivenEnds(clock),
        shared=None,
        clock=clock,
        metrics=Metrics(),
        ledger=partial(lone, dsn, PostgresLedger),
    )
    money = Accounting(parts=parts)
    running = asyncio.create_task(money.run())
    async with asyncio.timeout(patient(5)):
        while reservations.rounds < 5:  # noqa: ASYNC110  it has no events
            await asyncio.sleep(0.001)
    spool.let_go.set()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
