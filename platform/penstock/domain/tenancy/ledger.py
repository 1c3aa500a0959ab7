"""The usage ledger's nouns: one row per request, whatever became of it (B6).

The ledger is append-only and the truth: counters and budgets can be rebuilt from it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from penstock.domain.ids import KeyId, RequestId, TenantId, VersionId
from penstock.domain.money import MicroUsd, Price
from penstock.domain.outcome import Outcome
from penstock.domain.tenancy.cost import UNBOUNDED
from penstock.domain.tenancy.tenant import Priority
from penstock.domain.tokens import Usage

LEAST_GPU_S = 0.001
"""What a row says of an engine's time that used it and of which nobody knows how much: never nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """What is known when a request starts; enough to write its row if nobody lives to tell the rest.

    Its tokens are the most that it may take.
    """

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
    """What the answer will lack (``Degradation``, joined by commas), empty where nothing."""
    output_tokens: int = UNBOUNDED


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRow:
    """One finished, failed or cancelled request. Times are Unix seconds, money micro-dollars.

    ``exact`` is False where the engine's own token count never came; then the delivered tokens were counted.
    ``gpu_s`` are the engine's seconds: its steps' time in equal parts for all that were in them, or else a guess.
    ``continued`` is how often another worker went on with the stream.
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


def cost_of(price: Price, usage: Usage) -> MicroUsd:
    """Return what a row bills for what is known to have been used: of nothing, nothing."""
    return price.of(prompt=usage.prompt_tokens, cached=usage.cached_tokens, output=usage.output_tokens)


def close(
    opening: Opening, outcome: Outcome, usage: Usage, *, gpu_s: float, now: float, continued: int = 0
) -> LedgerRow:
    """Return the row of a request that ended; one that never reached an engine costs nothing."""
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
        cost=cost_of(opening.price, usage),
        opened_at=opening.opened_at,
        closed_at=now,
        degraded=opening.degraded,
        continued=continued,
    )


class Cursor(NamedTuple):
    """Where a page ended."""

    closed_at: float
    request: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A half-open stretch of Unix seconds."""

    begin: float
    end: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What one key spent on requests that were opened in a span."""

    tenant: TenantId
    key: KeyId
    cost: MicroUsd


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How many requests of a version ended so."""

    version: VersionId
    outcome: Outcome
    requests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgiven:
    """How many requests of a version ended so in a UTC hour (``hour_of``) by their callers' own doing."""

    hour: int
    version: VersionId
    outcome: Outcome
    requests: int


def hour_of(at: float) -> int:
    """Return the UTC hour of a moment, counted from 1970."""
    return math.floor(at / 3600.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageLine:
    """A tenant's sums over one version and outcome."""

    version: VersionId
    outcome: Outcome
    requests: int
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    gpu_s: float
    cost: MicroUsd


class LedgerReader(Protocol):
    """Reads the ledger: exports, invoices, reconciliation."""

    async def page(
        self, span: Span, *, tenant: TenantId | None = None, after: Cursor | None = None, limit: int = 1000
    ) -> tuple[LedgerRow, ...]:
        """Return rows in order of their end, at most ``limit``, after the cursor."""
        ...

    async def spent(self, span: Span) -> tuple[Spent, ...]:
        """Return what each key spent on requests that were opened in the span: that is when a budget admits them."""
        ...

    async def spent_in(self, period: str) -> tuple[Spent, ...]:
        """Return the same for a UTC day (``2026-11-21``) or month (``2026-11``), without reading the rows."""
        ...

    async def usage(self, tenant: TenantId, span: Span) -> tuple[UsageLine, ...]:
        """Return a tenant's sums by version and outcome."""
        ...

    async def ended(self, since: float) -> tuple[Ended, ...]:
        """Return how each version's requests ended since the beginning of that moment's UTC hour, from sums.

        Shadow copies are left out, for no caller has seen how they ended, and so is what was forgiven.
        """
        ...


class LedgerSink(Protocol):
    """Where rows end up."""

    async def append(self, rows: Sequence[LedgerRow]) -> None:
        """Store each row once (a request that has a row already keeps it), or raise ``StoreUnavailable``.

        A row that can't be stored for what it says (``InvalidField``, ``Conflict``) keeps all of the call from it.
        """
        ...


class ForgivenSink(Protocol):
    """Where it ends up which ends were their callers' own doing."""

    async def forgive(self, ends: Sequence[Forgiven]) -> None:
        """Leave these out of the ends that budgets read, or raise ``StoreUnavailable``; their rows stay as they are.

        No more than there are rows in that hour: the order of rows and of this does not matter.
        """
        ...
