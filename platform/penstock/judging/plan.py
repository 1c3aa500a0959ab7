"""A rollout's plan before it starts: from real traffic to each stage's duration and detection times. Pure.

It computes with the judge's own e-processes how fast an equal and a worse candidate would gain evidence.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

from penstock.domain.fleet.table import WEIGHT_TOTAL
from penstock.domain.rollout.arms import GROWTH
from penstock.domain.rollout.judgement import Metric
from penstock.domain.rollout.rollout import Kind, Rollout, Stage
from penstock.judging.e_process import RARE, expected_s
from penstock.judging.gates import Gates
from penstock.judging.judge import LATE_S
from penstock.judging.strata import FORGIVEN, LEAST, MOST_S

SPREAD = 0.5
"""Standard deviation of the logarithm of TTFT within a stratum."""
SLOWER = (1.5, 2.0, 3.0)
NEIGHBOURS = 2.0
"""Finding slow candidates takes longer by this factor than with independent requests: compare `make judges` with this
plan.
"""
FEW_BAD = 0.05
ROUNDING = 0.03
"""The part of equal versions' tokens with a different likeliest one, in another precision."""
STRATA = 12
"""Approximate number of strata with traffic: each needs comparable requests of the incumbent."""
_BINS = 50
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStage:
    """``needs_s`` until a proof, None if the traffic is too thin (``lacks`` says why). ``finds_s`` until an abort by
    fault, None if the fault would not be detected.
    """

    name: str
    weight: int
    per_s: float
    needs_s: float | None
    lacks: str
    finds_s: Mapping[str, float | None]
    workers: int
    worker_hours: float | None
    """The candidate's worker hours until the proof."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """Total seconds without a fault: None if one of the stages never ends."""

    stages: tuple[PlannedStage, ...]
    takes_s: float | None
    per_s: float
    over_s: float
    """The seconds over which ``per_s`` is averaged."""


def plan(rollout: Rollout, requests: int, over_s: float, gates: Gates, incumbents: int) -> Planned:
    per_s = requests / over_s
    stages = tuple(_stage(rollout, one, per_s, gates, incumbents) for one in rollout.stages)
    needed = [one.needs_s for one in stages]
    takes_s = None if None in needed else sum(one for one in needed if one is not None)
    return Planned(stages=stages, takes_s=takes_s, per_s=per_s, over_s=over_s)


def _stage(rollout: Rollout, stage: Stage, all_per_s: float, gates: Gates, incumbents: int) -> PlannedStage:
    share = stage.weight / WEIGHT_TOTAL
    per_s = all_per_s * share if stage.weight else min(all_per_s, rollout.shadow.per_s)
    workers = max(1, math.ceil(incumbents * share))
    lacks = _lacks(rollout, stage, per_s, all_per_s * (1.0 - share), gates)
    needs_s = (
        None
        if lacks
        else max(stage.min_s, _proof_s(rollout, stage, per_s, gates))
        if not stage.watched
        else stage.min_s
    )
    return PlannedStage(
        name=stage.name,
        weight=stage.weight,
        per_s=per_s,
        needs_s=needs_s,
        lacks=lacks,
        finds_s=_finds(stage, per_s, gates),
        workers=workers,
        worker_hours=None if needs_s is None else workers * needs_s / 3600,
    )


def _lacks(rollout: Rollout, stage: Stage, per_s: float, rest_per_s: float, gates: Gates) -> str:
    """Return what is missing; empty if the stage would be proven within its patience."""
    if stage.watched:
        return ""
    if stage.weight < WEIGHT_TOTAL and rest_per_s * MOST_S < LEAST * STRATA:
        return f"the incumbent's {rest_per_s * 3600:,.0f} requests an hour are too few to compare with"
    takes_s = _proof_s(rollout, stage, per_s, gates)
    if takes_s <= rollout.patience_s:
        return ""
    takes = f"{takes_s / 3600:,.1f} h" if math.isfinite(takes_s) else "for ever"
    patience = f"patience ends after {rollout.patience_s / 3600:.1f} h"
    return f"a proof with {per_s * 3600:,.0f} requests an hour takes {takes}, and {patience}"


def _proof_s(rollout: Rollout, stage: Stage, per_s: float, gates: Gates) -> float:
    if per_s <= 0.0:
        return math.inf
    bad = gates.shares[Metric.BAD]
    tolerated = bad.floor
    waits = [
        gates.min_sample / per_s,
        expected_s({1.0: per_s}, 1.0 - tolerated, math.inf, gates.odds.share_promote, RARE),
    ]
    if stage.weight < WEIGHT_TOTAL:
        equal = {1.0 - score: part * per_s for score, part in _ranks(1.0).items()}
        waits += [
            expected_s(equal, 1.0 - gates.ranked[one].promote, gates.per_second.abort, gates.odds.promote)
            for one in (Metric.TTFT, Metric.ITL)
        ]
    if not stage.weight and rollout.kind is Kind.EQUIVALENT:
        waits.append(_scored_s(min(per_s, rollout.shadow.scored_per_s), gates))
    return LATE_S + max(waits)


def _scored_s(per_s: float, gates: Gates) -> float:
    if per_s <= 0.0:
        return math.inf
    mean = 1.0 - gates.scored[Metric.ANSWERS].promote
    return max(gates.min_sample / per_s, expected_s({1.0 - ROUNDING: per_s}, mean, math.inf, gates.odds.promote))


def _finds(stage: Stage, per_s: float, gates: Gates) -> dict[str, float | None]:
    found = dict[str, float]()
    gate, odds, caps = gates.ranked[Metric.TTFT], gates.odds, gates.per_second
    for times in SLOWER if stage.weight < WEIGHT_TOTAL else ():
        slow = {score: part * per_s for score, part in _ranks(times).items()}
        tests = ((gate.abort, caps.abort, odds.abort), (gate.brake, caps.brake, odds.brake))
        found[f"{times:g}x slower"] = LATE_S + NEIGHBOURS * min(
            expected_s(slow, mean, cap, bar) for mean, cap, bar in tests
        )
    floor = gates.shares[Metric.BAD].floor
    for name, bad in ((f"{FEW_BAD:.0%} bad", FEW_BAD), ("all bad", 1.0)):
        ends = {1.0: bad * per_s, 0.0: (1.0 - bad) * per_s}
        found[name] = LATE_S + expected_s(ends, floor, math.inf, odds.share, RARE)
    return {name: seconds if math.isfinite(seconds) else None for name, seconds in found.items()}


@lru_cache
def _ranks(times: float) -> dict[float, float]:
    shift = math.log(times / GROWTH**FORGIVEN) / SPREAD

    def below(rank: float) -> float:
        return _NORMAL.cdf(_NORMAL.inv_cdf(rank) - shift) if 0.0 < rank < 1.0 else rank

    return {(i + 0.5) / _BINS: below((i + 1) / _BINS) - below(i / _BINS) for i in range(_BINS)}
