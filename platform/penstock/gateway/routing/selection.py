"""The steps of a pick: draw a sample, filter, take the best, record the choice. Pure; chance is an argument.

Two trade-offs against herding, since between two load reports all gateways see the same best worker: of a large version
a few workers are drawn at random (the power of d choices), and scores within ``TIE`` of the best count as equal.
"""

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeVar

from penstock.domain.fleet.table import WorkerEntry
from penstock.domain.ids import WorkerId
from penstock.domain.serving.request_record import Choice, Considered
from penstock.gateway.routing.scorers import Candidate

ROUNDS, ENOUGH = 4, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleSettings:
    """``choices`` are drawn, up to ``ROUNDS`` times while fewer than ``ENOUGH`` are open."""

    choices: int = 6
    watched: int = 64
    """Workers sampled to estimate a version's load."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterSettings:
    sample: SampleSettings = SampleSettings()
    max_waiting: int = 256


TIE = 0.01
MOST_KEPT = 6
"""The best workers compared that a record keeps: each costs half a microsecond per request."""
T = TypeVar("T")


def draw(among: Sequence[T], many: int, chance: random.Random) -> list[T]:
    size = len(among)
    if size <= many:
        return list(among)
    drawn: dict[int, None] = {}
    while len(drawn) < many:
        drawn[int(chance.random() * size)] = None
    return [among[index] for index in drawn]


def ready(workers: Sequence[WorkerEntry]) -> list[WorkerEntry]:
    return [w for w in workers if w.state.serves]


def untried(workers: Sequence[WorkerEntry], tried: Collection[WorkerId]) -> list[WorkerEntry]:
    return [w for w in workers if w.id not in tried] if tried else list(workers)


def healthy(
    workers: Sequence[WorkerEntry], ejected: Collection[WorkerId], *, may_be_none: bool = False
) -> list[WorkerEntry]:
    """All if none would be left, since trying beats refusing; ``may_be_none``: there are other workers to try."""
    left = [w for w in workers if w.id not in ejected]
    return left if left or may_be_none else list(workers)


def best(scores: Sequence[float], chance: random.Random) -> int:
    top = max(scores)
    tied = [index for index, score in enumerate(scores) if score >= top - TIE]
    return tied[0] if len(tied) == 1 else chance.choice(tied)


def recorded(
    chosen: WorkerId, among: Sequence[Candidate], scores: Sequence[float], *, serving: int, met: int
) -> Choice:
    if not scores:
        return Choice(chosen, serving, met, len(among), (_kept(among[0], None),))
    ranked = sorted(zip(scores, among, strict=True), key=lambda one: -one[0])
    best = ranked[:MOST_KEPT]
    if all(one.entry.id != chosen for _, one in best):  # chance takes any of those that are as good
        best[-1] = next(pair for pair in ranked if pair[1].entry.id == chosen)
    return Choice(chosen, serving, met, len(among), tuple(_kept(one, score) for score, one in best))


def _kept(one: Candidate, score: float | None) -> Considered:
    return Considered(one.entry.id, score, one.work_tokens, one.cached_tokens, one.kv_used_ratio, one.wait_s)
