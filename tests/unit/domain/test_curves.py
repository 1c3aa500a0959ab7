"""A curve that no engine could have is refused, with its field and the remedy."""

import math
from dataclasses import replace

import pytest

from penstock.domain.errors import InvalidField
from penstock.domain.models.curves import AHEAD_S, MOST_APART, MOST_POINTS, Curve, Origin, best, check
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


@pytest.mark.parametrize("value", [-1e-9, math.nan, math.inf, 60.1, 9e15])
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
        ("model.fixed_s", {"model": StepModel(fixed_s=5e-324, token_s=5e-324)}),
        ("points", {"points": MOST_POINTS + 1}),
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


def as_slow(times: float, points: int = 50) -> Curve:
    """Return a worker's curve that is so many times as slow as the measured one."""
    model = StepModel(fixed_s=0.017 * times, token_s=0.0007 * times, rides=False)
    return replace(CURVE, model=model, points=points, origin=Origin.SERVED)


@pytest.mark.parametrize("liar", [1e-9, 1e-3, 1e3])
@pytest.mark.parametrize("points", [LEAST_POINTS, MOST_POINTS])
def test_one_false_curve_decides_nothing(liar: float, points: int) -> None:
    """However many points it tells: against its like the middle one counts, alone against a measurement that one."""
    false, honest = as_slow(liar, points), as_slow(1.1)
    assert best((), [false, honest, None, honest]) == (honest,)
    assert best((CURVE,), [honest, false, honest]) == (honest,)
    assert best((CURVE,), [false]) == (CURVE,)


def test_a_workers_curve_refines_the_measured_one() -> None:
    """If it has seen as much and is near it; a cold worker's is not asked."""
    near, far = as_slow(MOST_APART - 0.1), as_slow(MOST_APART + 0.1)
    assert best((CURVE,), [near]) == (near,)
    assert best((CURVE,), [far]) == (CURVE,)
    assert best((replace(CURVE, points=51),), [near]) == (replace(CURVE, points=51),)


def test_hardware_keeps_its_own_curve() -> None:
    """A worker of other hardware changes nothing."""
    other = replace(as_slow(2.0), hardware="A100")
    assert best((CURVE,), [other]) == (other, CURVE)
