"""Tolerances of rollout judges as data: the differences for which a candidate is held or aborted, and those that must
be ruled out before a promotion.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from penstock.domain.rollout.judgement import Metric
from penstock.domain.serving.spec import SpecReader

RANKED = (Metric.TTFT, Metric.ITL, Metric.PRICE)
LEAST_RANK = 0.55
"""The narrowest tolerance above the noise between equal versions: at 0.52 five of six equal candidates were aborted."""
SCORED = (Metric.ANSWERS,)
SHARES = (Metric.BAD, Metric.REFUSED, Metric.EMPTY, Metric.CUT, Metric.JSON, Metric.FILTERED)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankGate:
    """Tolerated mean ranks, 0.5 among equals: ``promote <= hold <= abort <= brake``."""

    promote: float
    hold: float
    abort: float
    brake: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreGate:
    """Bounds of a score in [0, 1], 0 among equals: ``hold <= abort``; a promotion rules out ``promote``."""

    promote: float
    hold: float
    abort: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGate:
    """Tolerated shares of events: relative to the incumbent's share, and never below ``floor``."""

    floor: float
    times: float
    hold: float
    abort: float
    stands_alone: bool = False
    """The floor is a promise, and applies even if the incumbent's own share is unknown."""

    def mean(self, known: float | None, over: float) -> float | None:
        if known is None:
            return self.floor if self.stands_alone else None
        return min(_MOST, max(self.floor, self.times * known, known + over))


@dataclass(frozen=True, slots=True, kw_only=True)
class Odds:
    promote: float
    hold: float
    abort: float
    brake: float
    share: float
    share_promote: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PerSecond:
    """The most independent requests that one second's evidence counts as, by decision."""

    abort: float
    brake: float
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Gates:
    ranked: Mapping[Metric, RankGate]
    scored: Mapping[Metric, ScoreGate]
    shares: Mapping[Metric, ShareGate]
    odds: Odds
    per_second: PerSecond
    min_sample: int


_MOST = 0.95
_ODDS = tuple(Odds.__dataclass_fields__)
_SIDES = tuple(PerSecond.__dataclass_fields__)


def parse(raw: object, source: str, *, error_budget_ratio: float) -> Gates:
    """Raises ``SpecRefused``; ``error_budget_ratio`` is the tier's error budget."""
    spec = SpecReader(source, "", raw)
    spec.only(("ranked", "scored", "shares", "evidence", "per_second", "min_sample"))
    ranked, scored, shares = spec.inner("ranked"), spec.inner("scored"), spec.inner("shares")
    ranked.only(RANKED)
    scored.only(SCORED)
    shares.only(SHARES)
    odds, per_second = spec.inner("evidence"), spec.inner("per_second")
    odds.only(_ODDS)
    per_second.only(_SIDES)
    return Gates(
        ranked={metric: _rank_gate(ranked.inner(metric)) for metric in RANKED},
        scored={metric: _score_gate(scored.inner(metric)) for metric in SCORED},
        shares={metric: _share_gate(shares.inner(metric), metric, error_budget_ratio) for metric in SHARES},
        odds=Odds(**{key: odds.number(key, lambda n: n > 1, "odds above 1") for key in _ODDS}),
        per_second=PerSecond(**{key: per_second.number(key, lambda n: n > 0, "above 0") for key in _SIDES}),
        min_sample=int(spec.number("min_sample", lambda n: n == int(n) and n >= 1, "a count above 0")),
    )


def _rank_gate(spec: SpecReader) -> RankGate:
    names = tuple(RankGate.__dataclass_fields__)
    spec.only(names)
    expected = f"a mean rank from {LEAST_RANK:g}, below which is the noise between equals (make judges), to below 1"
    found = {name: spec.number(name, lambda n: LEAST_RANK <= n < 1.0, expected) for name in names}
    for narrow, wide in pairwise(names):
        if found[wide] < found[narrow]:
            raise spec.wrong(wide, f"{found[wide]:g} must not be below {narrow}, {found[narrow]:g}")
    return RankGate(**found)


def _score_gate(spec: SpecReader) -> ScoreGate:
    names = tuple(ScoreGate.__dataclass_fields__)
    spec.only(names)
    found = {name: spec.number(name, lambda n: 0 < n < 1, "a mean score above 0 and below 1") for name in names}
    if found["abort"] < found["hold"]:
        raise spec.wrong("abort", f"{found['abort']:g} must not be below hold, {found['hold']:g}")
    return ScoreGate(**found)


def _share_gate(spec: SpecReader, metric: Metric, error_budget_ratio: float) -> ShareGate:
    first = "burn" if metric is Metric.BAD else "floor"
    spec.only((first, "times", "hold", "abort"))
    floor = spec.number(first, lambda n: n > 0, "above 0")
    return ShareGate(
        floor=min(_MOST, floor * error_budget_ratio) if metric is Metric.BAD else floor,
        times=spec.number("times", lambda n: n >= 1, "1 or more"),
        hold=spec.number("hold", lambda n: 0 <= n < 1, "a share below 1"),
        abort=spec.number("abort", lambda n: 0 <= n < 1, "a share below 1"),
        stands_alone=metric is Metric.BAD,
    )
