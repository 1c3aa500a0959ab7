"""Scores of a worker for a request, each in [0, 1], 1 is best. Pure.

Trade-off of the prefix score: with equal weights, ``saved`` cached tokens are worth as many tokens of queue at an idle
worker.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from penstock.domain.fleet.table import WorkerEntry

ALIKE = 1.5
"""Paces within this factor are alike: they change with the requests inside."""

LEAST_PACE = 1.0
"""Tokens of service per second below which a pace says nothing: some worker told none."""


class Candidate(NamedTuple):
    entry: WorkerEntry
    work_tokens: float
    cached_tokens: int = 0
    kv_used_ratio: float = 0.0
    wait_s: float = 0.0
    """Seconds of the work queued at its gate, as reported."""
    pace_per_s: float = 0.0
    """Tokens of service per second, as its gate tells; 0: not told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Weights of the scores; ``scale_tokens`` of work, or of cached prefix, give half a score."""

    work: float = 1.0
    kv: float = 0.25
    prefix: float = 1.0
    adapter: float = 1.0
    scale_tokens: float = 2_048.0
    slack_tokens: float = 4_096.0


def work(work_tokens: float, scale_tokens: float) -> float:
    return scale_tokens / (scale_tokens + work_tokens)


def kv_headroom(kv_used_ratio: float) -> float:
    return min(1.0, max(0.0, 1.0 - kv_used_ratio))


def prefix(cached_tokens: int, scale_tokens: float) -> float:
    return cached_tokens / (scale_tokens + cached_tokens)


def totals(
    candidates: Sequence[Candidate], weights: Weights, *, adapter: bool = False, own_tokens: int = 0
) -> list[float]:
    """Return each candidate's weighted mean score, in [0, 1]; beyond the slack the prefix counts nothing.

    ``own_tokens`` of this request take longer at a slower worker. With ``adapter`` the adapter's weight is included and
    its score is not: ``residency.credited`` adds it.
    """
    scale = weights.scale_tokens
    candidates = _at_one_pace(candidates, own_tokens)
    most_work = min(c.work_tokens for c in candidates) + weights.slack_tokens
    whole = weights.work + weights.kv + weights.prefix + (weights.adapter if adapter else 0.0)
    return [
        (
            weights.work * work(c.work_tokens, scale)
            + weights.kv * (kv_headroom(c.kv_used_ratio) if c.kv_used_ratio else 1.0)
            + (
                weights.prefix * prefix(c.cached_tokens, scale)
                if c.cached_tokens and c.work_tokens <= most_work
                else 0.0
            )
        )
        / whole
        for c in candidates
    ]


def _at_one_pace(candidates: Sequence[Candidate], own_tokens: int) -> Sequence[Candidate]:
    """Return the candidates with their work as the fastest one's: a slower one takes longer for the same tokens."""
    paces = [c.pace_per_s for c in candidates]
    fastest, slowest = max(paces), min(paces)
    if slowest < LEAST_PACE or fastest <= slowest * ALIKE:
        return candidates
    return [c._replace(work_tokens=(c.work_tokens + own_tokens) * fastest / c.pace_per_s) for c in candidates]
