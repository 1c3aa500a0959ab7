"""Scores of a worker for a request, each in [0, 1], 1 is best. Pure.

Trade-off of the prefix score: a worker with a cached prefix saves the prefill of those tokens; one with a short queue
saves the wait for other requests' tokens. Both are counted in tokens: with equal weights, ``saved`` cached tokens are
worth exactly ``saved`` tokens of queue to an idle worker. A worker whose queue is longer than the shortest by more than
``slack_tokens`` gets no credit for its cache, so one hot prefix spills over instead of piling up at one worker.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from penstock.domain.fleet.table import WorkerEntry


class Candidate(NamedTuple):
    """A worker as the scorers see it, for one request."""

    entry: WorkerEntry
    work_tokens: float
    """Work it probably has before it."""
    cached_tokens: int = 0
    """Tokens of this request's prompt that it probably holds."""
    kv_used_ratio: float = 0.0
    wait_s: float = 0.0
    """Seconds that what waits at its door will take, as it said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """What each score counts; ``scale_tokens`` of work halve a score."""

    work: float = 1.0
    kv: float = 0.25
    prefix: float = 1.0
    adapter: float = 1.0
    scale_tokens: float = 2_048.0
    slack_tokens: float = 4_096.0


def work(work_tokens: float, scale_tokens: float) -> float:
    """1 for an idle worker, 1/2 at ``scale_tokens`` of work."""
    return scale_tokens / (scale_tokens + work_tokens)


def kv_headroom(kv_used_ratio: float) -> float:
    """The share of KV blocks that is free."""
    return min(1.0, max(0.0, 1.0 - kv_used_ratio))


def prefix(cached_tokens: int, scale_tokens: float) -> float:
    """0 without a hit, 1/2 at ``scale_tokens`` saved."""
    return cached_tokens / (scale_tokens + cached_tokens)


def totals(candidates: Sequence[Candidate], weights: Weights, *, adapter: bool = False) -> list[float]:
    """Return each candidate's weighted mean score, in [0, 1]; a prefix counts nothing beyond the slack.

    Where an ``adapter`` is asked for, its part is still to come (``residency.credited``).
    """
    scale = weights.scale_tokens
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
