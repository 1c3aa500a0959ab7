"""``LimitStore`` and ``SpentStore`` in this process, for one gateway; twin of the Redis scripts.

Time is monotonic: setting back the wall clock stops nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import floor

from penstock.domain.clock import Clock
from penstock.domain.errors import Conflict
from penstock.domain.ids import RequestId
from penstock.domain.tenancy.limits import SLOTS_RETRY_S, Draw, Measure, MeterDecision, MeterKind


@dataclass(slots=True)
class _Meter:
    level: float = 0.0
    at: float = 0.0
    spent: int = 0
    held: int = 0
    holds: dict[RequestId, tuple[int, float]] = field(default_factory=dict)

    def forget_expired(self, now: float) -> None:
        for lease in [x for x, (_, due) in self.holds.items() if due <= now]:
            self.held -= self.holds.pop(lease)[0]

    def release(self, lease: RequestId) -> None:
        self.held -= self.holds.pop(lease, (0, 0.0))[0]


class MemoryLimits:
    """No call awaits, so each is atomic."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._meters: dict[str, _Meter] = {}
        self._leases: dict[RequestId, tuple[Draw, ...]] = {}

    async def reserve(self, lease: RequestId, draws: Sequence[Draw], hold_s: float) -> MeterDecision:
        return self.reserve_now(lease, draws, hold_s)

    def reserve_now(self, lease: RequestId, draws: Sequence[Draw], hold_s: float) -> MeterDecision:
        if lease in self._leases:
            raise Conflict(f"lease {lease} is open already")
        now = self._clock.monotonic()
        decision = self._decide(draws, now)
        if decision.granted:
            self._take(lease, draws, now + hold_s)
        return decision

    async def look(self, draws: Sequence[Draw]) -> MeterDecision:
        return self._decide(draws, self._clock.monotonic())

    async def adopt(self, lease: RequestId, draws: Sequence[Draw], hold_s: float) -> None:
        if lease in self._leases:
            raise Conflict(f"lease {lease} is open already")
        now = self._clock.monotonic()
        for draw in draws:
            self._free(draw, now)
        self._take(lease, draws, now + hold_s)

    async def renew(self, leases: Sequence[RequestId], hold_s: float) -> None:
        due = self._clock.monotonic() + hold_s
        for lease in leases:
            for draw in self._leases.get(lease, ()):
                meter = self._meters[draw.key]
                if draw.kind is MeterKind.SLOTS or lease in meter.holds:
                    meter.held += 0 if lease in meter.holds else draw.amount
                    meter.holds[lease] = (draw.amount, due)

    async def free(self, lease: RequestId) -> None:
        self.free_now(lease)

    def free_now(self, lease: RequestId) -> None:
        draws = self._leases.get(lease, ())
        for draw in draws:
            if draw.kind is MeterKind.SLOTS:
                self._meters[draw.key].release(lease)
        if draws:
            self._leases[lease] = tuple(draw for draw in draws if draw.kind is not MeterKind.SLOTS)

    async def settle(self, lease: RequestId, actual: dict[Measure, int]) -> bool:
        return self.settle_now(lease, actual)

    def settle_now(self, lease: RequestId, actual: dict[Measure, int]) -> bool:
        draws = self._leases.pop(lease, None)
        for draw in draws or ():
            meter, used = self._meters[draw.key], actual.get(draw.measure, draw.amount)
            if draw.kind is MeterKind.BUCKET:
                meter.level = min(draw.capacity, meter.level + draw.amount - used)
                continue
            meter.release(lease)
            if draw.kind is MeterKind.BUDGET:
                meter.spent += used
        return draws is not None

    async def spent(self, meters: Sequence[str]) -> Mapping[str, int]:
        return {key: self._meters[key].spent if key in self._meters else 0 for key in meters}

    async def raise_spent(self, at_least: Mapping[str, int]) -> None:
        for key, amount in at_least.items():
            meter = self._meters.setdefault(key, _Meter())
            meter.spent = max(meter.spent, amount)

    async def put_spent(self, exactly: Mapping[str, int]) -> None:
        for key, amount in exactly.items():
            self._meters.setdefault(key, _Meter()).spent = amount

    def _decide(self, draws: Sequence[Draw], now: float) -> MeterDecision:
        free = [self._free(draw, now) for draw in draws]
        for draw, has in zip(draws, free, strict=True):
            if has < draw.amount:
                return self._refused(draw, _wait_s(draw, has), tuple(map(floor, free)))
        return MeterDecision(
            granted=True, remaining=tuple([floor(has - draw.amount) for draw, has in zip(draws, free, strict=True)])
        )

    def _refused(self, draw: Draw, wait_s: float, untouched: tuple[int, ...]) -> MeterDecision:
        is_budget, meter = draw.kind is MeterKind.BUDGET, self._meters[draw.key]
        return MeterDecision(
            granted=False,
            refused_by=draw,
            retry_after_s=wait_s,
            remaining=untouched,
            spent=meter.spent if is_budget else 0,
            held=meter.held if is_budget else 0,
        )

    def _free(self, draw: Draw, now: float) -> float:
        meter = self._meters.get(draw.key)
        if meter is None:
            meter = self._meters[draw.key] = _Meter(level=draw.capacity, at=now)
        if draw.kind is MeterKind.BUCKET:
            meter.level = min(draw.capacity, meter.level + (now - meter.at) * draw.refill_per_s)
            meter.at = now
            return meter.level
        meter.forget_expired(now)
        return draw.capacity - meter.spent - meter.held

    def _take(self, lease: RequestId, draws: Sequence[Draw], due: float) -> None:
        for draw in draws:
            meter = self._meters[draw.key]
            if draw.kind is MeterKind.BUCKET:
                meter.level -= draw.amount
            else:
                meter.held += draw.amount
                meter.holds[lease] = (draw.amount, due)
        self._leases[lease] = tuple(draws)


def _wait_s(draw: Draw, has: float) -> float:
    """0 if the meter never will grant the draw."""
    if draw.kind is MeterKind.BUDGET:
        return draw.window_ends_in_s
    if draw.kind is MeterKind.SLOTS:
        return SLOTS_RETRY_S
    return (draw.amount - has) / draw.refill_per_s if draw.amount <= draw.capacity else 0.0
