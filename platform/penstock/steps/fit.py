"""Fits the step model to measured steps: least squares of relative errors, no coefficient below zero. Pure.

The best non-negative solution is the best of the solutions on each set of coefficients that is non-negative by itself
(Lawson and Hanson 1974, chapter 23): of five coefficients 31 sets are solved, and no iteration can stall.

Trade-off: relative errors make a step of one sequence as important as one of a whole prompt.
"""

import math
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

from penstock.domain.errors import InvalidField
from penstock.domain.models.steps import LEAST_POINTS, Point, StepBatch, StepModel

FOLDS = 10
"""Parts of the points for the held-out error: each is predicted by a fit to the others."""
KNEES = 12
"""Numbers of tokens tried at most as the bound up to which tokens ride along."""
CLEARLY = 0.8
"""The loss of riding tokens, as part of the loss of a plain sum, from which they are believed."""
_WIDTH = 5
_SUPPORTS = [one for size in range(1, _WIDTH + 1) for one in combinations(range(_WIDTH), size)]
_SINGULAR = 1e-12
"""A pivot below that part of its column's square: two columns say the same."""
Row = list[float]


class Errors(NamedTuple):
    median: float
    p90: float


def fit(points: Sequence[Point]) -> StepModel:
    """Return the model with the least relative squared error; ``InvalidField`` for impossible or too few points."""
    _check(points)
    return _best(points)


def held_out(points: Sequence[Point]) -> Errors:
    """Return the errors of fits at points that each of them had not seen."""
    _check(points)
    ordered = sorted(points)
    errors: list[float] = []
    for part in range(FOLDS):
        model = _best([one for number, one in enumerate(ordered) if number % FOLDS != part])
        errors += (_error(model, one) for one in ordered[part::FOLDS])
    return errors_of(errors)


def errors_of(errors: Sequence[float]) -> Errors:
    ordered = sorted(errors)
    return Errors(median=ordered[len(ordered) // 2], p90=ordered[min(len(ordered) - 1, int(0.9 * len(ordered)))])


def _error(model: StepModel, point: Point) -> float:
    return abs(model.of(point.batch) / point.seconds - 1)


def _check(points: Sequence[Point]) -> None:
    for number, point in enumerate(points):
        if not math.isfinite(point.seconds) or point.seconds <= 0:
            raise InvalidField(
                f"{point.seconds:g} is no duration of a step: leave it out and measure again",
                param=f"points[{number}].seconds",
            )
    if (known := len({one.batch for one in points})) < LEAST_POINTS:
        raise InvalidField(
            f"{known} different steps are too few, {LEAST_POINTS} are needed: vary batch, prompt and context",
            param="points",
        )


def _best(points: Sequence[Point]) -> StepModel:
    plain = _solved(points, None)
    riding = [_solved(points, knee) for knee in _knees(points)]
    found = min(riding, key=lambda one: _loss(one, points), default=plain)
    return found if _loss(found, points) < CLEARLY * _loss(plain, points) else plain


def _loss(model: StepModel, points: Sequence[Point]) -> float:
    return sum(_error(model, one) ** 2 for one in points)


def _knees(points: Sequence[Point]) -> list[int]:
    sizes = sorted({one.batch.decoding + one.batch.prompt for one in points})
    return sizes[:: max(1, len(sizes) // KNEES)]


def _solved(points: Sequence[Point], knee: int | None) -> StepModel:
    rows = [[value / seconds for value in _columns(batch, knee)] for batch, seconds in points]
    found = _non_negative(rows)
    fixed, token, context, sequence, attention = found
    return StepModel(
        fixed_s=fixed,
        token_s=token,
        context_s=context,
        sequence_s=sequence,
        attention_s=attention,
        rides=knee is not None,
    )


def _columns(batch: StepBatch, knee: int | None) -> Row:
    """Return the factors of the five coefficients; up to the knee of riding tokens the weights alone count."""
    tokens = batch.decoding + batch.prompt
    is_free = knee is not None and tokens <= knee
    is_bound = knee is not None and tokens > knee
    return [0.0 if is_bound else 1.0, 0.0 if is_free else tokens, batch.context, batch.decoding, batch.pairs]


def _non_negative(rows: Sequence[Row]) -> Row:
    gram = [[sum(row[i] * row[j] for row in rows) for j in range(_WIDTH)] for i in range(_WIDTH)]
    right = [sum(row[i] for row in rows) for i in range(_WIDTH)]
    best, most = [0.0] * _WIDTH, 0.0
    for support in _SUPPORTS:
        found = _solve([[gram[i][j] for j in support] for i in support], [right[i] for i in support])
        if found is None or min(found) < 0:
            continue
        explained = sum(value * right[i] for value, i in zip(found, support, strict=True))
        if explained > most:
            most, best = explained, [0.0] * _WIDTH
            for value, i in zip(found, support, strict=True):
                best[i] = value
    return best


def _solve(matrix: list[Row], right: Row) -> Row | None:
    """Cholesky's elimination of a symmetric positive system; None if it is singular."""
    size = len(right)
    work = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for i in range(size):
        if work[i][i] <= _SINGULAR * matrix[i][i] or matrix[i][i] == 0:
            return None
        for j in range(i + 1, size):
            factor = work[j][i] / work[i][i]
            for k in range(i, size + 1):
                work[j][k] -= factor * work[i][k]
    found = [0.0] * size
    for i in reversed(range(size)):
        found[i] = (work[i][size] - sum(work[i][j] * found[j] for j in range(i + 1, size))) / work[i][i]
    return found
