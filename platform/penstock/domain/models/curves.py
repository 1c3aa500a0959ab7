"""A version's curve: its step model as measured on one hardware, with date and error."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum

from penstock.domain.errors import InvalidField
from penstock.domain.models.steps import LEAST_POINTS, StepBatch, StepModel, pairs_of

MOST_DISTURBED = 0.5
"""The largest part of steps that waited for a core: beyond it the machine was measured, not the engine."""
MOST_ERROR = 0.5
"""Median error above which a curve says nothing about the engine."""
LEAST_STEP_S, MOST_STEP_S = 1e-6, 60.0
"""Seconds of a step: a launch of one kernel takes microseconds, and a minute is beyond every deadline of a token."""
MOST_POINTS = 100_000
"""Ten times the compositions that a worker can tell apart."""
MOST_APART = 4.0
"""How many times as fast or slow as the measured curve a worker's may be: a GPU's clock explains a factor of two."""
AHEAD_S = 60.0
"""Seconds that the clock of a measuring machine may be ahead."""
AGAIN = "measure again with penstock bench engine"


class Origin(StrEnum):
    BENCH = "bench"
    """``penstock bench engine``."""
    SERVED = "served"
    """The steps of a worker that served."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Measured steps of a version, its engine settings included, on one hardware."""

    model: StepModel
    hardware: str
    """The processor and the part of it that an engine has: ``NVIDIA H100 x1``, ``Xeon x1 thread``."""
    measured_at: float
    points: int
    """Compositions measured, each by the median of its steps."""
    error_median: float
    """Relative, at compositions that the fit had not seen."""
    error_p90: float
    disturbed: float
    """The part of steps that waited for a core, and were left out."""
    origin: Origin


def best(stored: Iterable[Curve], reported: Iterable[Curve | None]) -> tuple[Curve, ...]:
    """Choose one curve per hardware: the middle one of the workers', if it has as many step compositions as the stored
    one and is near it. A false curve of one worker decides neither against its like nor against a measurement.
    """
    found, served = {curve.hardware: curve for curve in stored}, defaultdict[str, list[Curve]](list)
    for curve in reported:
        if curve is not None:
            served[curve.hardware].append(curve)
    for hardware, curves in served.items():
        middle, known = sorted(curves, key=_typical_s)[len(curves) // 2], found.get(hardware)
        if known is None or (middle.points >= known.points and _are_near(middle, known)):
            found[hardware] = middle
    return tuple(curve for _, curve in sorted(found.items()))


def _typical_s(curve: Curve) -> float:
    """Of a step of eight sequences with a thousand tokens of context each, and a part of a prompt."""
    return curve.model.of(StepBatch(decoding=8, prompt=256, context=8_192, pairs=pairs_of(256)))


def _are_near(one: Curve, other: Curve) -> bool:
    return 1 / MOST_APART <= _typical_s(one) / _typical_s(other) <= MOST_APART


def check(curve: Curve, now: float) -> Curve:
    """``InvalidField`` names the first impossible field and the remedy."""
    for field, fault in _faults(curve, now):
        raise InvalidField(f"{fault}: {AGAIN}", param=field)
    return curve


def _faults(curve: Curve, now: float) -> Iterator[tuple[str, str]]:
    seconds = [(f"model.{name}", value, "number of seconds") for name, value in asdict(curve.model).items()]
    ratios = [(name, getattr(curve, name), "ratio") for name in ("error_median", "error_p90", "disturbed")]
    for field, value, kind in seconds + ratios:
        if not math.isfinite(value) or value < 0:
            yield field, f"{value:g} is no {kind}"
        elif value > MOST_STEP_S:
            yield field, f"{value:g} is above {MOST_STEP_S:g}: that is no engine's {kind}"
    waited, error = curve.disturbed, curve.error_median
    others = (
        (curve.model.fixed_s + curve.model.token_s < LEAST_STEP_S, "model.fixed_s", "a step takes no time"),
        (curve.points > MOST_POINTS, "points", f"more than {MOST_POINTS:,} points are not told apart"),
        (curve.points < LEAST_POINTS, "points", f"{curve.points} points are fewer than {LEAST_POINTS}"),
        (
            waited > MOST_DISTURBED,
            "disturbed",
            f"{waited:.0%} of the steps waited for a core: not the engine was measured",
        ),
        (error > MOST_ERROR, "error_median", f"an error of {error:.0%} says nothing about the engine"),
        (curve.error_p90 < error, "error_p90", "it is below the median"),
        (not curve.hardware, "hardware", "it has no name"),
        (not 0 < curve.measured_at <= now + AHEAD_S, "measured_at", "that time is not in the past"),
    )
    yield from ((field, fault) for is_wrong, field, fault in others if is_wrong)
