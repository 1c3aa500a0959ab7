"""Values of the usage ledger: one row per request (B6).

The ledger is append-only and the source of truth: counters and budgets can be rebuilt from it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from penstock.domain.ids import KeyId, RequestId, TenantId, VersionId
from penstock.domain.money import FREE, MicroUsd, Price
from penstock.domain.outcome import Outcome
from penstock.domain.tenancy.cost import UNBOUNDED
from penstock.domain.tenancy.tenant import Priority, TierName
from penstock.domain.tokens import Usage

LEAST_GPU_S = 0.001
"""The engine time of a row whose time on an engine is unknown: never 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """Enough to write a request's row if the process dies. Token counts are upper bounds."""

    request: RequestId
    tenant: TenantId
    key: KeyId
    version: VersionId
    digest: str
    api: str
    priority: Priority
    prompt_tokens: int
    price: Price
    opened_at: float
    degraded: str = ""
    """The answer's degradations (``Degradation``, joined by commas); empty for none."""
    output_tokens: int = UNBOUNDED
    service_tier: TierName = TierName.DEFAULT
    price_factor: float = 1.0
    """Already contained in ``price``."""
    answers_only: bool = False
    """Whether anything but a complete answer is free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRow:
    """One finished, failed or cancelled request. Times are Unix seconds, money micro-dollars.

    ``exact`` is False if the token count is the gateway's own estimate, was capped, or was taken while the request ran.
    ``gpu_s`` are engine seconds: each step divided among its sequences, or an estimate; for a continued stream, the
    last worker's. Decoding images on a CPU is not included. ``continued`` counts the workers that continued the stream.
    """

    request: RequestId
    tenant: TenantId
    key: KeyId
    version: VersionId
    digest: str
    api: str
    priority: Priority
    outcome: Outcome
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    exact: bool
    gpu_s: float
    cost: MicroUsd
    opened_at: float
    closed_at: float
    degraded: str = ""
    continued: int = 0
    service_tier: TierName = TierName.DEFAULT
    price_factor: float = 1.0


def cost_of(price: Price, usage: Usage) -> MicroUsd:
    return price.of(prompt=usage.prompt_tokens, cached=usage.cached_tokens, output=usage.output_tokens)


def close(
    opening: Opening, outcome: Outcome, usage: Usage, *, gpu_s: float, now: float, continued: int = 0
) -> LedgerRow:
    """A request that never reached an engine costs nothing."""
    started = usage.prompt_tokens > 0 or usage.output_tokens > 0
    return LedgerRow(
        request=opening.request,
        tenant=opening.tenant,
        key=opening.key,
        version=opening.version,
        digest=opening.digest,
        api=opening.api,
        priority=opening.priority,
        outcome=outcome,
        prompt_tokens=usage.prompt_tokens,
        cached_tokens=usage.cached_tokens,
        output_tokens=usage.output_tokens,
        exact=usage.exact,
        gpu_s=gpu_s or LEAST_GPU_S if started else gpu_s,
        cost=FREE if opening.answers_only and not outcome.is_answer else cost_of(opening.price, usage),
        opened_at=opening.opened_at,
        closed_at=now,
        degraded=opening.degraded,
        continued=continued,
        service_tier=opening.service_tier,
        price_factor=opening.price_factor,
    )


class Cursor(NamedTuple):
    closed_at: float
    request: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A half-open interval of Unix seconds."""

    begin: float
    end: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    tenant: TenantId
    key: KeyId
    cost: MicroUsd


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    version: VersionId
    outcome: Outcome
    requests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgiven:
    """A version's bad outcomes in a UTC hour (``hour_of``) that callers caused: no error budget counts them."""

    hour: int
    version: VersionId
    outcome: Outcome
    requests: int


def hour_of(at: float) -> int:
    """Return a moment's UTC hour, counted from 1970."""
    return math.floor(at / 3600.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageLine:
    version: VersionId
    outcome: Outcome
    requests: int
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    gpu_s: float
    cost: MicroUsd


class LedgerReader(Protocol):
    async def page(
        self, span: Span, *, tenant: TenantId | None = None, after: Cursor | None = None, limit: int = 1000
    ) -> tuple[LedgerRow, ...]:
        """Return at most ``limit`` rows after the cursor, in order of their end."""
        ...

    async def spent(self, span: Span) -> tuple[Spent, ...]:
        """Sum by opening time, at which a budget admits a request."""
        ...

    async def spent_in(self, period: str) -> tuple[Spent, ...]:
        """Read the sums of a UTC day (``2026-11-21``) or month (``2026-11``)."""
        ...

    async def usage(self, tenant: TenantId, span: Span) -> tuple[UsageLine, ...]: ...

    async def ended(self, since: float) -> tuple[Ended, ...]:
        """Return hourly sums from the UTC hour of the given time on, without shadow copies and forgiven outcomes."""
        ...


class LedgerSink(Protocol):
    async def append(self, rows: Sequence[LedgerRow]) -> None:
        """Keep each request's first row; raises ``StoreUnavailable``.

        A row refused for its content (``InvalidField``, ``Conflict``) fails the whole call.
        """
        ...


class ForgivenSink(Protocol):
    """Stores counts of outcomes that callers caused."""

    async def forgive(self, ends: Sequence[Forgiven]) -> None:
        """Store the counts; at most an hour's rows are excluded, so rows and exclusions may arrive in any order.

        Raises ``StoreUnavailable``.
        """
        ...
