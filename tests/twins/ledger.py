"""The usage ledger in this process. Fits `LedgerSink`, `LedgerReader` and `ForgivenSink` of `domain.ledger`."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from penstock.domain.errors import Conflict
from penstock.domain.ids import KeyId, RequestId, TenantId, VersionId
from penstock.domain.money import MicroUsd
from penstock.domain.outcome import Outcome
from penstock.domain.tenancy import budget
from penstock.domain.tenancy.ledger import Cursor, Ended, Forgiven, LedgerRow, Span, Spent, UsageLine, hour_of
from penstock.domain.tenancy.tenant import SHADOWS
from penstock.filters.evidence import SealedText
from penstock.filters.intervention import Intervention


class MemoryLedger:
    """Rows in a dict by request; each is written once."""

    def __init__(self) -> None:
        self._rows: dict[RequestId, LedgerRow] = {}
        self.interventions: dict[tuple[RequestId, int], Intervention] = {}
        self.texts: list[SealedText] = []
        self._forgiven: Counter[tuple[int, VersionId, Outcome]] = Counter()

    async def append(self, rows: Sequence[LedgerRow]) -> None:
        """Store each row once; a request that has a row keeps it. All or nothing, as a database does."""
        if not all(map(_is_sound, rows)):
            raise Conflict("a row counts what can't be")
        for row in rows:
            self._rows.setdefault(row.request, row)

    async def record(self, interventions: Sequence[Intervention]) -> None:
        """Keep each intervention once."""
        for one in interventions:
            self.interventions.setdefault((one.request, one.number), one)

    async def keep(self, texts: Sequence[SealedText]) -> None:
        self.texts += texts

    async def page(
        self, span: Span, *, tenant: TenantId | None = None, after: Cursor | None = None, limit: int = 1000
    ) -> tuple[LedgerRow, ...]:
        begin = after or Cursor(0.0, "")
        rows = [r for r in self._in(span) if tenant in {None, r.tenant} and (r.closed_at, r.request) > begin]
        return tuple(sorted(rows, key=lambda r: (r.closed_at, r.request))[:limit])

    async def spent(self, span: Span) -> tuple[Spent, ...]:
        """Return what each key spent on requests that were opened in the span."""
        return _summed(row for row in self._rows.values() if span.begin <= row.opened_at < span.end)

    async def spent_in(self, period: str) -> tuple[Spent, ...]:
        """Return what each key spent in a day or month."""
        return _summed(
            row
            for row in self._rows.values()
            if period in {budget.day(row.opened_at).name, budget.month(row.opened_at).name}
        )

    async def usage(self, tenant: TenantId, span: Span) -> tuple[UsageLine, ...]:
        groups: dict[tuple[VersionId, Outcome], list[LedgerRow]] = defaultdict(list)
        for row in self._in(span):
            if row.tenant == tenant:
                groups[row.version, row.outcome].append(row)
        return tuple(
            UsageLine(
                version=version,
                outcome=outcome,
                requests=len(rows),
                prompt_tokens=sum(r.prompt_tokens for r in rows),
                cached_tokens=sum(r.cached_tokens for r in rows),
                output_tokens=sum(r.output_tokens for r in rows),
                gpu_s=sum(r.gpu_s for r in rows),
                cost=MicroUsd(sum(r.cost for r in rows)),
            )
            for (version, outcome), rows in sorted(groups.items())
        )

    async def ended(self, since: float) -> tuple[Ended, ...]:
        """Return how each version's requests ended since the beginning of that moment's UTC hour."""
        rows = [row for row in self._rows.values() if row.tenant != SHADOWS]
        sums = Counter((hour_of(row.closed_at), row.version, row.outcome) for row in rows) - self._forgiven
        counts: Counter[tuple[VersionId, Outcome]] = Counter()
        for (hour, version, outcome), requests in sums.items():
            if hour >= hour_of(since):
                counts[version, outcome] += requests
        return tuple(Ended(version=v, outcome=o, requests=n) for (v, o), n in sorted(counts.items()))

    async def forgive(self, ends: Sequence[Forgiven]) -> None:
        """Leave these out of the ends that budgets read."""
        if any(one.outcome is Outcome.OK or one.requests <= 0 for one in ends):
            raise Conflict("an end is forgiven that can't be")
        for one in ends:
            self._forgiven[one.hour, one.version, one.outcome] += one.requests

    def _in(self, span: Span) -> list[LedgerRow]:
        return [row for row in self._rows.values() if span.begin <= row.closed_at < span.end]


def _summed(rows: Iterable[LedgerRow]) -> tuple[Spent, ...]:
    sums: dict[tuple[TenantId, KeyId], int] = defaultdict(int)
    for row in rows:
        sums[row.tenant, row.key] += row.cost
    return tuple(Spent(tenant=tenant, key=key, cost=MicroUsd(cost)) for (tenant, key), cost in sorted(sums.items()))


def _is_sound(row: LedgerRow) -> bool:
    return 0 <= row.cached_tokens <= row.prompt_tokens and min(row.output_tokens, row.gpu_s, row.cost) >= 0
