"""Limits as values: a lease's draws on meters, and one decision about all of them.

A meter is one limit of one scope (key, tenant, organisation): a refilling bucket (requests or tokens a minute), slots
(concurrent requests or streams), or a budget (micro-dollars in a window). A lease draws on several meters: all draws
succeed or none does (B2, B3, B5).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

from penstock.domain.ids import RequestId

SLOTS_RETRY_S = 1.0
"""``Retry-After`` for a caller whose slots are full: one of them may become free at any time."""


class MeterKind(StrEnum):
    BUCKET = "bucket"
    SLOTS = "slots"
    BUDGET = "budget"


class Measure(StrEnum):
    REQUESTS = "requests"
    TOKENS = "tokens"
    CONCURRENCY = "concurrency"
    STREAMS = "streams"
    SPEND = "spend"


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """``key`` names the meter (scope, measure, model, and for budgets the window). ``capacity`` is the bucket's size,
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
    """Refused by the first meter that has too little left; ``retry_after_s`` is 0 if waiting will not help.
    ``remaining`` is each meter's remainder in the order of the draws, after them if granted; a negative one is a
    debt.
    """

    granted: bool
    refused_by: Draw | None = None
    retry_after_s: float = 0.0
    remaining: tuple[int, ...] = ()
    spent: int = 0
    """Spend of the budget that refused."""
    held: int = 0
    """The amount of the refusing budget that running leases hold."""


class LimitStore(Protocol):
    """Every call is one atomic decision; raises ``StoreUnavailable``."""

    async def reserve(self, lease: RequestId, draws: Sequence[Draw], hold_s: float) -> MeterDecision:
        """Make all draws or none. Slots and budget holds expire ``hold_s`` after the lease's last renewal."""
        ...

    async def look(self, draws: Sequence[Draw]) -> MeterDecision:
        """Decide without drawing; granted if the store is unavailable."""
        ...

    async def adopt(self, lease: RequestId, draws: Sequence[Draw], hold_s: float) -> None:
        """Draw even above capacity, since another store granted the lease. ``Conflict`` if this store knows it."""
        ...

    async def renew(self, leases: Sequence[RequestId], hold_s: float) -> None: ...

    async def free(self, lease: RequestId) -> None:
        """Free the slots while the usage is unknown; ``settle`` follows."""
        ...

    async def settle(self, lease: RequestId, actual: dict[Measure, int]) -> bool:
        """Return False without a change if the lease was settled before."""
        ...


@runtime_checkable
class ImmediateLimits(Protocol):
    """A settlement takes effect at once, so that a freed slot never looks taken."""

    def free_now(self, lease: RequestId) -> None: ...

    def settle_now(self, lease: RequestId, actual: dict[Measure, int]) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence:
    """``at_ms`` is the store's clock; a new ``mark`` means that the store lost its data."""

    at_ms: int
    gateways: int
    since: int
    """Gateways that have registered since the given moment."""
    mark: str


class SharedLimits(LimitStore, Protocol):
    async def ping(self) -> None: ...

    async def present(self, gateway: str, alive_s: float, since_ms: int = 0) -> Presence:
        """Register this gateway for ``alive_s``; return the living gateways."""
        ...


class SpentStore(Protocol):
    """Read and corrected from the ledger; raises ``StoreUnavailable``. Holds of running leases stay. A meter that never
    counted has spent nothing.
    """

    async def spent(self, meters: Sequence[str]) -> Mapping[str, int]: ...

    async def raise_spent(self, at_least: Mapping[str, int]) -> None:
        """Raise the spend to at least this amount; settlements with unwritten ledger rows are kept."""
        ...

    async def put_spent(self, exactly: Mapping[str, int]) -> None:
        """Set the spend, only on a platform at rest: settlements with unwritten ledger rows are lost."""
        ...
