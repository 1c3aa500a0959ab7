"""Scores of a worker for a request, each in [0, 1], 1 is best. Pure.

Trade-off of the prefix score: with equal weights, ``saved`` cached tokens are worth as many tokens of queue at an idle
worker.
"""

from collections.abc import Sequence
from typing import NamedTuple

from penstock.domain.fleet.table import WorkerEntry

WORK, KV, PREFIX, ADAPTER = 1.0, 0.25, 1.0, 1.0
"""Weights of the scores."""
PLAIN = WORK + KV + PREFIX
"""The weights of a request without an adapter."""
SCALE_TOKENS, SLACK_TOKENS = 2_048.0, 4_096.0
"""Tokens of work, or of cached prefix, that give half a score; work beyond the idlest worker's for which a prefix
counts.
"""
ALIKE = 1.5
"""Paces within this factor are alike: they change with the requests inside."""
SLOW_TOKENS = 128.0
"""Tokens of work that a slower worker counts more: more than a tie, or chance would send it half of the short
requests.
"""
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


def work(work_tokens: float) -> float:
    return SCALE_TOKENS / (SCALE_TOKENS + work_tokens)


def kv_headroom(kv_used_ratio: float) -> float:
    return min(1.0, max(0.0, 1.0 - kv_used_ratio))


def prefix(cached_tokens: int) -> float:
    return cached_tokens / (SCALE_TOKENS + cached_tokens)


def totals(candidates: Sequence[Candidate], *, adapter: bool = False, own_tokens: int = 0) -> list[float]:
    """Weighted means in [0, 1]; beyond the slack the prefix counts nothing. ``own_tokens`` take longer at a slower
    worker. ``adapter``: its weight is included, its score not (``residency.credited``).
    """
    candidates = _at_one_pace(candidates, own_tokens)
    most_work = min(c.work_tokens for c in candidates) + SLACK_TOKENS
    whole = PLAIN + (ADAPTER if adapter else 0.0)
    return [
        (
            WORK * work(c.work_tokens)
            + KV * (kv_headroom(c.kv_used_ratio) if c.kv_used_ratio else 1.0)
            + (PREFIX * prefix(c.cached_tokens) if c.cached_tokens and c.work_tokens <= most_work else 0.0)
        )
        / whole
        for c in candidates
    ]


def _at_one_pace(candidates: Sequence[Candidate], own_tokens: int) -> Sequence[Candidate]:
    """Work as the fastest one's: a slower worker takes longer for the same tokens."""
    paces = [c.pace_per_s for c in candidates]
    fastest, slowest = max(paces), min(paces)
    if slowest < LEAST_PACE or fastest <= slowest * ALIKE:
        return candidates
    slow = fastest / ALIKE
    return [
        c._replace(
            work_tokens=(c.work_tokens + own_tokens) * fastest / c.pace_per_s
            + (SLOW_TOKENS if c.pace_per_s < slow else 0.0)
        )
        for c in candidates
    ]
