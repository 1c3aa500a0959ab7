"""Limits as values: what one lease takes from which meter, and the decision about all of them at once.

A meter is one limit of one scope (key, tenant, organisation): a bucket that refills (requests or tokens a minute),
slots (requests or streams at a time), or a budget (micro-dollars in a window). A lease draws on several meters;
either all of them give or none does (B2, B3, B5).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

from penstock.domain.ids import RequestId

SLOTS_RETRY_S = 1.0
"""What to tell a caller whose slots are full: one of them may end any moment."""


class MeterKind(StrEnum):
    """How a meter counts."""

    BUCKET = "bucket"
    SLOTS = "slots"
    BUDGET = "budget"


class Measure(StrEnum):
    """What a meter counts; also the reason code of a refusal."""

    REQUESTS = "requests"
    TOKENS = "tokens"
    CONCURRENCY = "concurrency"
    STREAMS = "streams"
    SPEND = "spend"


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """What a lease takes from one meter.

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
class Decision:
    """Granted, or refused by the first meter that could not give. ``retry_after_s`` is 0 where waiting won't help.

    ``remaining`` holds what each meter has left, in the order of the draws: after them, or untouched by a refusal.
    Below zero it is owed.
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

    async def reserve(self, lease: RequestId, draws: Sequence[Draw], hold_s: float) -> Decision:
        """Take all draws or none. Slots and budget holds free themselves ``hold_s`` after the last renewal."""
        ...

    async def look(self, draws: Sequence[Draw]) -> Decision:
        """Tell what ``reserve`` would decide now, and take nothing; granted also where nobody can tell."""
        ...

    async def adopt(self, lease: RequestId, draws: Sequence[Draw], hold_s: float) -> None:
        """Take all draws, also where they don't fit: it was given elsewhere. ``Conflict`` where the lease is known."""
        ...

    async def renew(self, leases: Sequence[RequestId], hold_s: float) -> None:
        """Keep the holds of living leases."""
        ...

    async def free(self, lease: RequestId) -> None:
        """Give back a lease's slots before it is settled: it runs no more, and what it used is still to be learned."""
        ...

    async def settle(self, lease: RequestId, actual: dict[Measure, int]) -> bool:
        """Replace what was reserved by what was used; True the first time, False (and no change) after that."""
        ...


@runtime_checkable
class ImmediateLimits(Protocol):
    """Meters in this process: a settlement needs no waiting, so nobody finds a slot taken that is free already."""

    def free_now(self, lease: RequestId) -> None:
        """Do what ``free`` does."""
        ...

    def settle_now(self, lease: RequestId, actual: dict[Measure, int]) -> bool:
        """Do what ``settle`` does."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence:
    """Who is there, as the store knows it. ``at_ms`` is the store's clock; another ``mark``: it has forgotten all."""

    at_ms: int
    gateways: int
    since: int
    """Gateways that have said so after the moment that was asked about."""
    mark: str


class SharedLimits(LimitStore, Protocol):
    """A store that many gateways share, and that may go away and come back."""

    async def ping(self) -> None:
        """Answer."""
        ...

    async def present(self, gateway: str, alive_s: float, since_ms: int = 0) -> Presence:
        """Say that this gateway is there for so long and that nothing it gave is unknown here; tell who else did."""
        ...


class SpentStore(Protocol):
    """What the budgets' meters count, read and corrected from the ledger; raises ``StoreUnavailable``.

    Holds of running leases are not touched. A meter that never counted has spent nothing.
    """

    async def spent(self, meters: Sequence[str]) -> Mapping[str, int]:
        """Return what each of these meters has counted, in micro-dollars."""
        ...

    async def raise_spent(self, at_least: Mapping[str, int]) -> None:
        """Count at least so much. Safe at any time: a settlement whose row is still under way isn't lost."""
        ...

    async def put_spent(self, exactly: Mapping[str, int]) -> None:
        """Count exactly so much. For a platform at rest: settlements whose rows are under way would be lost."""
        ...
