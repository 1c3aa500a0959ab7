"""Some gateways and one store that can fall silent, before or after it took what it was asked, and forget."""

from collections.abc import Callable, Mapping, Sequence

from penstock.connectors.memory.limits import MemoryLimits
from penstock.domain.errors import StoreUnavailable
from penstock.domain.ids import RequestId
from penstock.domain.tenancy.limits import Draw, Measure, MeterDecision, MeterKind, Presence
from penstock.gateway.admission.guarded import Alone, GuardedLimits
from penstock.gateway.admission.outage import POLICY, Reach, WhenAway
from penstock.telemetry.metrics import Metrics
from tests.support.clock import ManualClock

GATEWAYS = 4
HOLD_S = 10.0


class Store(MemoryLimits):
    """A store in memory that can fall silent, before or after it took what it was asked, and forget."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.clock = clock
        self.is_down = False
        self.takes_first = False
        self.mark = "first"
        self.seen: dict[str, float] = {}
        self.asked = 0
        self.settled: list[RequestId] = []

    async def reserve(self, lease: RequestId, draws: Sequence[Draw], hold_s: float) -> MeterDecision:
        self.asked += 1
        if self.is_down and self.takes_first:
            await super().reserve(lease, draws, hold_s)
        self._check()
        return await super().reserve(lease, draws, hold_s)

    async def adopt(self, lease: RequestId, draws: Sequence[Draw], hold_s: float) -> None:
        self._check()
        await super().adopt(lease, draws, hold_s)

    async def renew(self, leases: Sequence[RequestId], hold_s: float) -> None:
        self._check()
        await super().renew(leases, hold_s)

    async def settle(self, lease: RequestId, actual: dict[Measure, int]) -> bool:
        self._check()
        first = await super().settle(lease, actual)
        self.settled += [lease] if first else []
        return first

    async def ping(self) -> None:
        self._check()

    async def present(self, gateway: str, alive_s: float, since_ms: int = 0) -> Presence:
        self._check()
        now = self.clock.now()
        self.seen = {name: at for name, at in self.seen.items() if now - at < alive_s} | {gateway: now}
        since = sum(1 for at in self.seen.values() if at * 1000 > since_ms)
        return Presence(at_ms=int(now * 1000), gateways=len(self.seen), since=since, mark=self.mark)

    def forget(self) -> None:
        self._meters.clear()
        self._leases.clear()
        self.seen.clear()
        self.mark += "+"

    def held(self) -> int:
        """All holds, in slots and money."""
        return sum(meter.held for meter in self._meters.values())

    def _check(self) -> None:
        if self.is_down:
            raise StoreUnavailable


class Room:
    def __init__(
        self, clock: ManualClock, gateways: int = GATEWAYS, *, grace_s: float = 0.0, **policy: WhenAway
    ) -> None:
        self.clock, self.store, self.metrics = clock, Store(clock), Metrics()
        chosen: Mapping[Measure, WhenAway] = {**POLICY, **{Measure(name): what for name, what in policy.items()}}
        self.gateways = [
            GuardedLimits(
                self.store,
                Alone(me=f"g{i}", store=lambda: MemoryLimits(clock), policy=chosen, grace_s=grace_s),
                clock,
                self.metrics,
            )
            for i in range(gateways)
        ]
        self.number = 0

    async def round(self, seconds: float = 1.0) -> None:
        """Let time pass, and every gateway look after its own."""
        self.clock.advance(seconds)
        for gateway in self.gateways:
            await gateway.meet()
            await gateway.renew(list(gateway._unsynced.living), HOLD_S)

    async def ask(self, gateway: int, *draws: Draw) -> tuple[RequestId, MeterDecision]:
        self.number += 1
        lease = RequestId(f"r{self.number}")
        return lease, await self.gateways[gateway].reserve(lease, draws, HOLD_S)

    async def given(self, count: int, draw: Callable[[], Draw]) -> int:
        """Ask so often, all gateways in turn, and return how many were granted."""
        return sum([(await self.ask(i % len(self.gateways), draw()))[1].granted for i in range(count)])

    def reaches(self) -> set[Reach]:
        return {gateway.reach for gateway in self.gateways}


def rate(capacity: int = 40, amount: int = 1) -> Draw:
    return Draw(
        key="tenant:t:rpm",
        kind=MeterKind.BUCKET,
        measure=Measure.REQUESTS,
        amount=amount,
        capacity=capacity,
        refill_per_s=capacity / 60,
    )


def slot(capacity: int = 8) -> Draw:
    return Draw(key="tenant:t:c", kind=MeterKind.SLOTS, measure=Measure.CONCURRENCY, amount=1, capacity=capacity)


def money(amount: int = 10, capacity: int = 100) -> Draw:
    return Draw(
        key="tenant:t:spend:2026-11-21",
        kind=MeterKind.BUDGET,
        measure=Measure.SPEND,
        amount=amount,
        capacity=capacity,
        window_ends_in_s=60.0,
    )
