"""A store is told everything that was given without it, once."""

import pytest

from penstock.connectors.memory.limits import MemoryLimits
from penstock.domain.errors import StoreUnavailable
from penstock.domain.ids import RequestId
from penstock.domain.tenancy.limits import Draw, Measure, MeterKind
from penstock.gateway.admission.unsynced import DEBTS_AT_ONCE, MINUTE_S, UnsyncedLeases
from tests.support.clock import ManualClock

HOLD_S = 3.0


class Faltering(MemoryLimits):
    """A store that falls silent after so many calls that change it, each of which it has done."""

    calls_left = 1_000_000

    async def adopt(self, lease: RequestId, draws: object, hold_s: float) -> None:
        await super().adopt(lease, draws, hold_s)  # type: ignore[arg-type]  # passed on as it came
        self._count()

    async def settle(self, lease: RequestId, actual: dict[Measure, int]) -> bool:
        done = await super().settle(lease, actual)
        self._count()
        return done

    def _count(self) -> None:
        self.calls_left -= 1
        if self.calls_left < 0:
            raise StoreUnavailable

    def level(self) -> float:
        return self._meters["tpm"].level


def tokens(amount: int) -> Draw:
    return Draw(
        key="tpm", kind=MeterKind.BUCKET, measure=Measure.TOKENS, amount=amount, capacity=10_000, refill_per_s=1e-9
    )


def ended(unsynced: UnsyncedLeases, count: int, used: int, first: int = 0) -> None:
    """Let so many requests run to their end without the store."""
    for number in range(first, first + count):
        unsynced.given(RequestId(f"r{number}"), [tokens(100)], synced=False)
        assert unsynced.ended(RequestId(f"r{number}"), {Measure.TOKENS: used})


@pytest.mark.parametrize("calls", range(8))
async def test_a_debt_is_paid_once_however_often_the_store_falls_silent(clock: ManualClock, calls: int) -> None:
    """Silence at any step, and telling it all again, ends in the sum of what was used."""
    store, unsynced = Faltering(clock), UnsyncedLeases("g", clock, hold_s=HOLD_S)
    ended(unsynced, 2 * DEBTS_AT_ONCE + 7, used=30)
    store.calls_left = calls
    for number in range(8):
        try:
            await unsynced.sync(store)
        except StoreUnavailable:
            store.calls_left = 1_000_000
        ended(unsynced, 1, used=30, first=1000 + number)
    await unsynced.sync(store)
    assert store.level() == 10_000 - 30 * (2 * DEBTS_AT_ONCE + 7 + 8)


async def test_what_a_bucket_has_refilled_is_no_debt(clock: ManualClock) -> None:
    """A minute later nothing is owed."""
    store, unsynced = Faltering(clock), UnsyncedLeases("g", clock, hold_s=HOLD_S)
    ended(unsynced, 3, used=30)
    clock.advance(MINUTE_S + 1)
    await unsynced.sync(store)
    assert store._meters == {}


async def test_a_lease_that_ends_while_the_store_is_told_is_not_held(clock: ManualClock) -> None:
    """What ended between question and answer is given back at once."""
    unsynced = UnsyncedLeases("g", clock, hold_s=HOLD_S)

    class Slow(Faltering):
        async def adopt(self, lease: RequestId, draws: object, hold_s: float) -> None:
            await super().adopt(lease, draws, hold_s)
            assert unsynced.ended(RequestId("r"), {}) == (lease == "r")

    slot = Draw(key="c", kind=MeterKind.SLOTS, measure=Measure.CONCURRENCY, amount=1, capacity=1)
    store = Slow(clock)
    unsynced.given(RequestId("r"), [slot], synced=False)
    await unsynced.sync(store)
    assert store._meters["c"].held == 0
