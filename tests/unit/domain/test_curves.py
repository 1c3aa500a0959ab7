"""A curve that no engine could have is refused, with its field and the remedy."""

import math
from dataclasses import replace

import pytest

from penstock.domain.errors import InvalidField
from penstock.domain.models.curves import AHEAD_S, Curve, Origin, check
from penstock.domain.models.steps import LEAST_POINTS, StepModel

NOW = 1_800_000_000.0
CURVE = Curve(
    model=StepModel(fixed_s=0.017, token_s=0.0007, rides=False),
    hardware="Xeon x1",
    measured_at=NOW - 60,
    points=LEAST_POINTS,
    error_median=0.04,
    error_p90=0.1,
    disturbed=0.0,
    origin=Origin.BENCH,
)


def test_a_measured_curve_is_taken() -> None:
    """As it is, also from a clock that is a little ahead."""
    assert check(CURVE, NOW) is CURVE
    ahead = replace(CURVE, measured_at=NOW + AHEAD_S, disturbed=0.5, error_median=0.5, error_p90=0.5)
    assert check(ahead, NOW) is ahead


@pytest.mark.parametrize("value", [-1e-9, math.nan, math.inf])
@pytest.mark.parametrize("name", ["fixed_s", "token_s", "context_s", "sequence_s", "attention_s"])
def test_impossible_seconds_are_refused(name: str, value: float) -> None:
    """Negative, NaN or infinite: each of the five."""
    with pytest.raises(InvalidField, match="measure again with penstock bench engine") as refusal:
        check(replace(CURVE, model=replace(CURVE.model, **{name: value})), NOW)  # type: ignore[arg-type]
    assert refusal.value.param == f"model.{name}"


@pytest.mark.parametrize(
    ("field", "changed"),
    [
        ("model.fixed_s", {"model": StepModel(fixed_s=0.0, token_s=0.0, context_s=1.0)}),
        ("error_median", {"error_median": math.nan}),
        ("error_p90", {"error_p90": -0.1}),
        ("error_p90", {"error_p90": 0.039}),
        ("error_median", {"error_median": 0.501, "error_p90": 0.6}),
        ("disturbed", {"disturbed": 0.51}),
        ("disturbed", {"disturbed": math.nan}),
        ("points", {"points": 2}),
        ("points", {"points": LEAST_POINTS - 1}),
        ("hardware", {"hardware": ""}),
        ("measured_at", {"measured_at": NOW + AHEAD_S + 1}),
        ("measured_at", {"measured_at": 0.0}),
    ],
)
def test_a_curve_without_a_measurement_is_refused(field: str, changed: dict[str, object]) -> None:
    """Two points, a busy machine, the future: the field is named."""
    with pytest.raises(InvalidField, match="measure again") as refusal:
        check(replace(CURVE, **changed), NOW)  # type: ignore[arg-type]
    assert refusal.value.param == field
