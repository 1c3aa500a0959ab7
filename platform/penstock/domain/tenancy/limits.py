"""Limits as values: a lease's draws on meters, and one decision about all of them.

A meter is one limit of one scope (key, tenant, organisation): a refilling bucket (requests or tokens a minute), slots
(concurrent requests or streams), or a budget (micro-dollars in a window). A lease draws on several meters: all of them
give or none does (B2, B3, B5).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

from penstock.domain.ids import RequestId

SLOTS_RETRY_S = 1.0
"""What to tell a caller whose slots are full: one of them may end any moment."""


class MeterKind(StrEnum):
    BUCKET = "bucket"
    SLOTS = "slots"
    BUDGET = "budget"


class Measure(StrEnum):
    """Unit of a meter; also the reason code of a refusal."""

    REQUESTS = "requests"
    TOKENS = "tokens"
    CONCURRENCY = "concurrency"
    STREAMS = "streams"
    SPEND = "spend"


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """A lease's draw on one meter.

    ``key`` names the meter (scope, measure, model, and for budgets the window). ``capacity`` is the bucket's size,
    the number of slots, or the budget; ``refill_per_s`` is for buckets; ``window_ends_in_s`` for budgets.
    """

    key: str
    kind: MeterKind
    measure: Measure
    amount: int
    capacity: int
    refill_per_s: float = 0.0
    window_ends_in_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MeterDecision:
    """Granted, or refused by the first meter that could not give. ``retry_after_s`` is 0 if waiting will not help.

    ``remaining`` is each meter's rest in the order of the draws, after them if granted; below zero it is owed.
    """

    granted: bool
    refused_by: Draw | None = None
    retry_after_s: float = 0.0
    remaining: tuple[int, ...] = ()
    spent: int = 0
    """What the budget that refused has spent."""
    held: int = 0
    """What running leases hold of the budget that refused."""


class LimitStore(Protocol):
    """Meters shared by all gateways. Every call is one atomic decision; raises ``StoreUnavailable``."""

    async def reserve(self, lease: RequestId, draws: Sequence[Draw], hold_s: float) -> MeterDecision:
        """Take all draws or none. Slots and budget holds free themselves ``hold_s`` after the last renewal."""
        ...

    async def look(self, draws: Sequence[Draw]) -> MeterDecision:
        """Return the decision that ``reserve`` would give, without drawing; granted if it cannot be known."""
        ...

    async def adopt(self, lease: RequestId, draws: Sequence[Draw], hold_s: float) -> None:
        """Take all draws even above capacity, since another store granted them. ``Conflict`` for a known lease."""
        ...

    async def renew(self, leases: Sequence[RequestId], hold_s: float) -> None:
        """Extend the holds of living leases."""
        ...

    async def free(self, lease: RequestId) -> None:
        """Return a lease's slots before it is settled: it runs no more, its usage is still unknown."""
        ...

    async def settle(self, lease: RequestId, actual: dict[Measure, int]) -> bool:
        """Replace the reservation by the usage; True the first time, False (and no change) after that."""
        ...


@runtime_checkable
class ImmediateLimits(Protocol):
    """In-process meters: a settlement takes effect at once, so that a freed slot never looks taken."""

    def free_now(self, lease: RequestId) -> None:
        """``free``, without waiting."""
        ...

    def settle_now(self, lease: RequestId, actual: dict[Measure, int]) -> bool:
        """``settle``, without waiting."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence:
    """Gateways alive by the store. ``at_ms`` is the store's clock; a new ``mark`` means that it lost its data."""

    at_ms: int
    gateways: int
    since: int
    """Gateways that have said so after the moment that was asked about."""
    mark: str


class SharedLimits(LimitStore, Protocol):
    """A store shared by gateways, which may be away for a time."""

    async def ping(self) -> None: ...

    async def present(self, gateway: str, alive_s: float, since_ms: int = 0) -> Presence:
        """Register this gateway for a time, with all its leases known to the store; return the others."""
        ...


class SpentStore(Protocol):
    """The budgets' meters, read and corrected from the ledger; raises ``StoreUnavailable``.

    Holds of running leases are untouched. A meter that never counted has spent nothing.
    """

    async def spent(self, meters: Sequence[str]) -> Mapping[str, int]:
        """Return each meter's count, micro-dollars."""
        ...

    async def raise_spent(self, at_least: Mapping[str, int]) -> None:
        """Raise the count to at least this. Safe at any time: settlements with rows still under way are kept."""
        ...

    async def put_spent(self, exactly: Mapping[str, int]) -> None:
        """Set the count to exactly this. For a platform at rest: settlements with rows under way would be lost."""
        ...
