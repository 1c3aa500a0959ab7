"""The limits store with its fallback: the shared store, or this gateway's share of the limits while the store is
unavailable. A request waits for the store at most once, when the store stops answering; then ``outage`` decides each
limit's treatment, and a loop tests whether the store is back. If it returns without its data, budgets are closed until
they are counted from the ledger. Trade-off: while gateways return, a request that fits may be refused.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from penstock.domain.clock import Clock
from penstock.domain.errors import Conflict, StoreUnavailable
from penstock.domain.ids import RequestId
from penstock.domain.outage import retry_after_s
from penstock.domain.tenancy.limits import Draw, LimitStore, Measure, MeterDecision, MeterKind, SharedLimits
from penstock.gateway.admission.outage import POLICY, Breaker, Reach, WhenAway, closes, held_alone
from penstock.gateway.admission.unsynced import NOTHING, UnsyncedLeases
from penstock.telemetry import names
from penstock.telemetry.logs import logger
from penstock.telemetry.metrics import Metrics, begin_at_zero

ALIVE_S = 3.0
"""Seconds without registration after which a gateway isn't counted."""
CLOSED = "the caller's budget can't be checked now: the request was not started, and costs nothing"
ROUND_S = 1.0
"""Seconds between a gateway's registrations."""
HURRY_S = 0.15
"""Seconds between tests of an unavailable store."""
GRACE_S = 3.0
"""Seconds that a return takes at most after a short outage, since other gateways register once a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone:
    """Settings for an outage of the store; ``gateways`` is their assumed number until the store has reported it."""

    me: str
    store: Callable[[], LimitStore]
    """Constructor of an empty store in this process."""
    policy: Mapping[Measure, WhenAway] = field(default_factory=lambda: POLICY)
    gateways: int = 1
    grace_s: float = GRACE_S


class GuardedLimits:
    """Implements ``LimitStore``; call ``meet`` after each ``pause``."""

    def __init__(self, store: SharedLimits, alone: Alone, clock: Clock, metrics: Metrics) -> None:
        self._store, self._settings, self._clock = store, alone, clock
        self._reach = metrics.gauge(names.LIMITS_REACH)
        self._shared_by = metrics.gauge(names.LIMITS_GATEWAYS)
        self._decided = metrics.counter(names.LIMITS_ALONE)
        begin_at_zero(self._decided, WhenAway)
        self._breaker = Breaker()
        self._unsynced = UnsyncedLeases(alone.me, clock, hold_s=ALIVE_S)
        self._alone = alone.store()
        self._gateways = alone.gateways
        self._mark = ""
        self._since_ms = 0
        self._away_at = -alone.grace_s
        self._went, self._back = asyncio.Event(), asyncio.Event()
        self._forgot = False
        self.wants_count = False
        """True where budgets should be counted from the ledger; until ``counting`` says that it begins."""
        self._show()

    @property
    def reach(self) -> Reach:
        return self._breaker.reach

    def counting(self) -> None:
        """Called while budgets are counted: if the store loses its data from now on, they are counted again."""
        self.wants_count = False

    def counted(self) -> None:
        self._forgot = self._forgot and self.wants_count

    # -- LimitStore --------------------------------------------------------------------

    async def reserve(self, lease: RequestId, draws: Sequence[Draw], hold_s: float) -> MeterDecision:
        """``StoreUnavailable`` also if the outage policy closes one of these limits."""
        if (decision := await self._shared(lease, draws, hold_s)) is not None:
            return decision
        if self._closes(draws):
            with self._unsynced.undecided(lease):
                if await self._hiccup() and (decision := await self._shared(lease, draws, hold_s)) is not None:
                    return decision
            self._decided.labels(WhenAway.CLOSED).inc()
            raise StoreUnavailable(CLOSED, retry_after_s=self._retry_after_s())
        return await self._by_myself(lease, draws, hold_s)

    async def look(self, draws: Sequence[Draw]) -> MeterDecision:
        if self._breaker.reach is Reach.SHARED and not self._forgot:
            try:
                return await self._store.look(draws)
            except StoreUnavailable as error:
                await self._failed(error)
        return MeterDecision(granted=True)

    async def adopt(self, lease: RequestId, draws: Sequence[Draw], hold_s: float) -> None:
        await self._store.adopt(lease, draws, hold_s)

    async def renew(self, leases: Sequence[RequestId], hold_s: float) -> None:
        if self._breaker.reach is not Reach.SHARED:
            await self._alone.renew(leases, hold_s)
        if self._breaker.reach is not Reach.ALONE:
            try:
                await self._store.renew(leases, hold_s)
            except StoreUnavailable as error:
                await self._failed(error)

    async def free(self, lease: RequestId) -> None:
        if self._breaker.reach is not Reach.SHARED:
            await self._alone.free(lease)
        if self._breaker.reach is not Reach.ALONE:
            try:
                await self._store.free(lease)
            except StoreUnavailable as error:
                await self._failed(error)

    async def settle(self, lease: RequestId, actual: dict[Measure, int]) -> bool:
        if self._breaker.reach is not Reach.SHARED:
            await self._alone.settle(lease, actual)
        if self._unsynced.ended(lease, actual):
            return True
        if self._breaker.reach is Reach.ALONE:
            raise StoreUnavailable("the limits store is away")
        try:
            return await self._store.settle(lease, actual)
        except StoreUnavailable as error:
            await self._failed(error)
            raise

    # -- deciding ------------------------------------------------------------------------

    def _closes(self, draws: Sequence[Draw]) -> bool:
        return closes(draws, self._settings.policy)

    async def _shared(self, lease: RequestId, draws: Sequence[Draw], hold_s: float) -> MeterDecision | None:
        if self._breaker.reach is Reach.SHARED and not (self._forgot and self._closes(draws)):
            try:
                return await self._ask(lease, draws, hold_s)
            except StoreUnavailable as error:
                await self._failed(error)
        return None

    async def _hiccup(self) -> bool:
        left_s = self._away_at + self._settings.grace_s - self._clock.monotonic()
        if self._breaker.reach is Reach.SHARED or left_s <= 0:
            return False
        with suppress(TimeoutError):
            async with asyncio.timeout(left_s):
                await self._back.wait()
        return self.reach is Reach.SHARED

    def _retry_after_s(self) -> float:
        is_back = self._breaker.reach is Reach.SHARED
        return retry_after_s(0.0 if is_back else self._clock.monotonic() - self._away_at)

    async def _ask(self, lease: RequestId, draws: Sequence[Draw], hold_s: float) -> MeterDecision:
        try:
            decision = await self._store.reserve(lease, draws, hold_s)
        except Conflict:
            if not self._unsynced.has_taken(lease):
                raise
            # Asked before it fell silent, it took the lease then; what is left since it would tell only who asks anew.
            decision = MeterDecision(granted=True, remaining=tuple(draw.capacity - draw.amount for draw in draws))
        except BaseException:  # also where the caller gave up: the store may have taken it
            self._unsynced.doubt(lease)
            raise
        if decision.granted:
            self._unsynced.given(lease, draws, synced=True)
        return decision

    async def _by_myself(self, lease: RequestId, draws: Sequence[Draw], hold_s: float) -> MeterDecision:
        """Decide by this gateway's share; while gateways return, the store must grant too."""
        mine = held_alone(draws, self._settings.policy, self._gateways)
        self._decided.labels(WhenAway.SHARE if len(mine) == len(draws) else WhenAway.OPEN).inc()
        decision = _as_of(draws, mine, await self._alone.reserve(lease, mine, hold_s))
        if decision.granted and self._breaker.reach is Reach.RETURNING:
            try:
                shared = await self._ask(lease, draws, hold_s)
            except StoreUnavailable as error:
                await self._failed(error)
            else:
                if not shared.granted:
                    await self._alone.settle(lease, NOTHING)
                return shared
        if decision.granted:
            self._unsynced.given(lease, draws, synced=False)
        return decision

    async def _failed(self, error: StoreUnavailable) -> None:
        was = self._breaker.reach
        if not self._breaker.failed(self._clock.monotonic()):
            return
        self._went.set()
        if was is Reach.SHARED:
            self._away_at = self._clock.monotonic()
            self._back.clear()
            self._alone = self._settings.store()
            for lease, draws in self._unsynced.living.items():
                slots = [draw for draw in draws if draw.kind is MeterKind.SLOTS]
                mine = held_alone(slots, self._settings.policy, self._gateways)
                await self._alone.adopt(lease, mine, ALIVE_S)
        self._show()
        logger().error("limits_store_away", state=self.reach, count=self._gateways, reason=_why(error))

    # -- coming back -----------------------------------------------------------------------

    async def pause(self) -> None:
        """Wait until the next round: briefly during an outage, not at all at its start."""
        self._went.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(ROUND_S if self._breaker.reach is Reach.SHARED else HURRY_S):
                await self._went.wait()

    async def meet(self) -> None:
        """Register this gateway; on the store's return report the leases."""
        now = self._clock.monotonic()
        if self._breaker.reach is Reach.ALONE and not self._breaker.may_try(now):
            return
        try:
            if self._breaker.reach is Reach.ALONE:
                await self._return()
            await self._unsynced.take_back(self._store)
            await self._present(now)
        except StoreUnavailable as error:
            await self._failed(error)

    async def _return(self) -> None:
        await self._store.ping()
        await self._store.renew(list(self._unsynced.living), ALIVE_S)
        await self._unsynced.sync(self._store)
        self._breaker.answered(self._clock.monotonic())
        self._show()
        logger().warning("limits_store_returning", state=self.reach, count=len(self._unsynced.living))
        await self._unsynced.sync(self._store)
        self._since_ms = 0

    async def _present(self, now: float) -> None:
        found = await self._store.present(self._settings.me, ALIVE_S, self._since_ms)
        if self._mark not in {"", found.mark}:
            self.wants_count = self._forgot = True
            logger().error("limits_store_forgot", state=self.reach, count=len(self._unsynced.living))
            await self._unsynced.sync_running(self._store, list(self._unsynced.living))
        self._mark = found.mark
        if self._breaker.reach is Reach.SHARED:
            self._gateways = found.gateways
            self._shared_by.set(found.gateways)
        elif not self._since_ms:
            self._since_ms = found.at_ms
        elif self._breaker.met(now, all_there=found.since >= self._gateways):
            self._since_ms = 0
            self.wants_count = True
            self._back.set()
            self._show()
            logger().warning("limits_store_back", state=self.reach, count=found.since)

    def _show(self) -> None:
        for reach in Reach:
            self._reach.labels(reach).set(reach is self.reach)


def _why(error: StoreUnavailable) -> str:
    """Return the message and the cause's class, since the cause's text may contain an address."""
    cause = error.__cause__
    return f"{error.message} ({type(cause).__name__})" if cause else error.message


def _as_of(draws: Sequence[Draw], mine: Sequence[Draw], decision: MeterDecision) -> MeterDecision:
    left = {draw.key: left for draw, left in zip(mine, decision.remaining, strict=True)}
    refused = decision.refused_by
    return replace(
        decision,
        refused_by=None if refused is None else next(draw for draw in draws if draw.key == refused.key),
        remaining=tuple(left.get(draw.key, draw.capacity) for draw in draws),
    )
