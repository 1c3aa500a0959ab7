"""How good a worker is for a request: each score is in [0, 1], 1 is best. Pure.

Trade-off of the prefix score. Sending a prompt where its prefix is cached saves the prefill of those tokens; sending
it where the queue is short saves the wait for other people's tokens. Both are counted in the same coin: with equal
weights, ``saved`` cached tokens are worth exactly ``saved`` tokens of queue to an idle worker. And a worker whose
queue is longer than the shortest by more than ``slack_tokens`` gets no credit for its cache at all, so that one hot
prefix can't pile everything on one worker: it spills over, and then a second worker holds it too.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.domain.table import WorkerEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A worker as the scorers see it, for one request."""

    entry: WorkerEntry
    work_tokens: float
    """Work it probably has before it."""
    kv_used_ratio: float
    cached_tokens: int
    """Tokens of this request's prompt that it probably holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """What each score counts; ``scale_tokens`` of work halve a score."""

    work: float = 1.0
    kv: float = 0.25
    prefix: float = 1.0
    scale_tokens: float = 2_048.0
    slack_tokens: float = 4_096.0


def work(candidate: Candidate, weights: Weights) -> float:
    """1 for an idle worker, 1/2 at ``scale_tokens`` of work."""
    return 1.0 / (1.0 + max(0.0, candidate.work_tokens) / weights.scale_tokens)


def kv_headroom(candidate: Candidate) -> float:
    """The share of KV blocks that is free."""
    return min(1.0, max(0.0, 1.0 - candidate.kv_used_ratio))


def prefix(candidate: Candidate, weights: Weights, least_work: float) -> float:
    """0 without a hit, 1/2 at ``scale_tokens`` saved; nothing beyond the slack."""
    if not candidate.cached_tokens or candidate.work_tokens - least_work > weights.slack_tokens:
        return 0.0
    return 1.0 - 1.0 / (1.0 + candidate.cached_tokens / weights.scale_tokens)


def totals(candidates: Sequence[Candidate], weights: Weights) -> list[float]:
    """Return each candidate's weighted mean score, in [0, 1]."""
    least_work = min(c.work_tokens for c in candidates)
    whole = weights.work + weights.kv + weights.prefix
    return [
        (
            weights.work * work(c, weights)
            + weights.kv * kv_headroom(c)
            + weights.prefix * prefix(c, weights, least_work)
        )
        / whole
        for c in candidates
    ]
