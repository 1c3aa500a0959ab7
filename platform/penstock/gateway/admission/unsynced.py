"""A gateway's own leases, and their report to a store that was unavailable: each lease once, no debt twice.

Of leases that ended unreported only the last minute's use is reported: buckets have refilled the rest.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from penstock.domain.clock import Clock
from penstock.domain.errors import Conflict
from penstock.domain.ids import RequestId
from penstock.domain.tenancy.limits import Draw, LimitStore, Measure, MeterKind

MINUTE_S = 60.0
"""Seconds after which use is no debt any more, because a bucket has refilled."""
DEBTS_AT_ONCE = 50
NOTHING = dict.fromkeys(Measure, 0)


@dataclass(frozen=True, slots=True)
class _Debt:
    at: float
    draw: Draw


class UnsyncedLeases:
    """Each is valid for ``hold_s`` once reported, unless it is renewed."""

    def __init__(self, me: str, clock: Clock, *, hold_s: float) -> None:
        self._me, self._clock, self._hold_s = me, clock, hold_s
        self._paid = 0
        self._unsynced: set[RequestId] = set()
        self._doubtful: set[RequestId] = set()
        self._undecided: set[RequestId] = set()
        self._debts: deque[_Debt] = deque()
        self._batch: list[_Debt] = []
        self.living: dict[RequestId, Sequence[Draw]] = {}

    def given(self, lease: RequestId, draws: Sequence[Draw], *, synced: bool) -> None:
        self.living[lease] = draws
        if not synced:
            self._unsynced.add(lease)

    def doubt(self, lease: RequestId) -> None:
        self._doubtful.add(lease)

    @contextmanager
    def undecided(self, lease: RequestId) -> Iterator[None]:
        self._undecided.add(lease)
        try:
            yield
        finally:
            self._undecided.discard(lease)

    def has_taken(self, lease: RequestId) -> bool:
        return lease in self._doubtful

    def ended(self, lease: RequestId, actual: Mapping[Measure, int]) -> bool:
        """True if the store did not know the lease. Spend is counted from the ledger, not here."""
        draws = self.living.pop(lease, ())
        if lease not in self._unsynced:
            return False
        self._unsynced.discard(lease)
        now = self._clock.monotonic()
        for draw in draws:
            if draw.kind is MeterKind.BUCKET:
                self._debts.append(_Debt(now, replace(draw, amount=actual.get(draw.measure, draw.amount))))
        self._forget_old()
        return True

    async def sync(self, store: LimitStore) -> None:
        """Raises ``StoreUnavailable``, and keeps the leases that the store could not take."""
        await self.take_back(store)
        await self.sync_running(store, list(self._unsynced))
        self._forget_old()
        while self._batch or self._debts:
            # A batch stays as it is until the store has said yes: it may have taken it without saying so.
            self._batch = self._batch or [self._debts.popleft() for _ in range(min(DEBTS_AT_ONCE, len(self._debts)))]
            carrier = await self._owe(store, self._batch)
            self._batch = []
            await store.settle(carrier, {})

    async def take_back(self, store: LimitStore) -> None:
        """Settle leases that the store may have granted without an answer arriving."""
        for lease in self._doubtful - self._undecided:
            if lease not in self.living:
                await store.settle(lease, NOTHING)
            self._doubtful.discard(lease)

    async def sync_running(self, store: LimitStore, leases: Iterable[RequestId]) -> None:
        for lease in leases:
            draws = self.living.get(lease)
            if draws is None:
                continue
            with suppress(Conflict):  # it took the lease before it fell silent
                await store.adopt(lease, draws, self._hold_s)
            self._unsynced.discard(lease)
            if lease not in self.living:  # it ended meanwhile
                await store.settle(lease, NOTHING)

    async def _owe(self, store: LimitStore, debts: Sequence[_Debt]) -> RequestId:
        """Report ended leases' use under one lease, which counts once."""
        lease = RequestId(f"{self._me}:debt:{self._paid}")
        sums: dict[str, Draw] = {}
        for debt in debts:
            known = sums.get(debt.draw.key)
            sums[debt.draw.key] = replace(debt.draw, amount=debt.draw.amount + (known.amount if known else 0))
        with suppress(Conflict):
            await store.adopt(lease, tuple(sums.values()), self._hold_s)
        self._paid += 1
        return lease

    def _forget_old(self) -> None:
        now = self._clock.monotonic()
        while self._debts and now - self._debts[0].at > MINUTE_S:
            self._debts.popleft()
