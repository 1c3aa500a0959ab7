"""Each tenant's figures, window by window: a window begins when a tenant joins or leaves, so before stands beside
after.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from loadtests.drive.records import End, Record
from loadtests.plan.scenario import Mix, Tenant
from loadtests.verdict.figures import quantile

FAULTS = (End.FAILED, End.BROKEN, End.LATE, End.WRONG)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One tenant in one window; None for unknown values."""

    tenant: str
    priority: str
    from_s: float
    until_s: float
    asked: int
    whole: int
    refused: int
    refused_without_retry_after: int
    left: int
    faults: int
    ttft_s: tuple[float | None, ...]
    """At p50, p95 and p99."""
    itl_s: tuple[float | None, ...]
    """At p50, p95 and p99."""
    whole_p95_s: float | None
    prompt_tokens: int | None
    output_tokens: int | None
    """By the target's own usage; None where it told none."""


QUANTILES = (0.5, 0.95, 0.99)


def windows(mix: Mix, duration_s: float) -> list[tuple[float, float]]:
    bounds = {0.0, 1.0, *(part for one in mix.tenants for part in (one.from_part, one.until_part))}
    return [(a * duration_s, b * duration_s) for a, b in pairwise(sorted(bounds))]


def seen(records: Sequence[Record], mix: Mix, duration_s: float) -> list[Seen]:
    """Return each tenant's figures in each window in which it asked."""
    return [
        _seen(tenant, (from_s, until_s), mine)
        for tenant in mix.tenants
        for from_s, until_s in windows(mix, duration_s)
        if (mine := [one for one in records if one.tenant == tenant.name and from_s <= one.planned_at < until_s])
    ]


def _seen(tenant: Tenant, window: tuple[float, float], records: Sequence[Record]) -> Seen:
    ends = Counter(record.end for record in records)
    ttft_s = [record.ttft_s for record in records if record.ttft_s is not None]
    gaps_s = [gap_s for record in records if not record.slow for gap_s in record.gaps_s]
    return Seen(
        tenant=tenant.name,
        priority=tenant.priority,
        from_s=window[0],
        until_s=window[1],
        asked=len(records),
        whole=ends[End.WHOLE],
        refused=ends[End.REFUSED],
        refused_without_retry_after=sum(
            record.end is End.REFUSED and record.retry_after_s is None for record in records
        ),
        left=ends[End.LEFT],
        faults=sum(ends[end] for end in FAULTS),
        ttft_s=tuple(quantile(ttft_s, q) for q in QUANTILES),
        itl_s=tuple(quantile(gaps_s, q) for q in QUANTILES),
        whole_p95_s=quantile([record.whole_s for record in records if record.end is End.WHOLE], 0.95),
        prompt_tokens=_told([record.prompt_tokens for record in records]),
        output_tokens=_told([record.output_tokens for record in records]),
    )


def _told(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
