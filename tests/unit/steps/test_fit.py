"""The step model's fit: it finds what made the steps, and refuses what no engine does."""

import math
import random
from dataclasses import astuple, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.errors import InvalidField
from penstock.domain.models.steps import LEAST_POINTS, Point, StepBatch, StepModel, pairs_of
from penstock.steps.fit import errors_of, fit, held_out

CPU = StepModel(
    fixed_s=0.0172, token_s=0.000671, context_s=3.62e-6, sequence_s=0.000094, attention_s=5.4e-7, rides=False
)
GPU = StepModel(fixed_s=0.0064, token_s=2.78e-5, context_s=6.5e-8, sequence_s=1e-5, rides=True)


def batches() -> list[StepBatch]:
    """Return compositions of decoding, of prompts, and of both."""
    decoding = [StepBatch(b, 0, b * c) for b in (1, 2, 4, 8, 16, 32, 64) for c in (64, 522, 1500)]
    prompts = [StepBatch(0, p, 0, pairs_of(p, o)) for p in (32, 64, 128, 256, 512, 2048) for o in (0, 512, 1024)]
    mixed = [StepBatch(b, p, b * 300, pairs_of(p)) for b in (4, 16, 128) for p in (64, 192, 1024)]
    return decoding + prompts + mixed


def steps_of(model: StepModel, noise: float = 0.0, seed: int = 1) -> list[Point]:
    """Return the seconds of all compositions, each with its own relative error."""
    chance = random.Random(seed)
    return [Point(one, model.of(one) * math.exp(chance.gauss(0, noise))) for one in batches()]


@pytest.mark.parametrize("model", [CPU, GPU], ids=["adds", "rides"])
def test_it_finds_the_model_that_made_the_steps(model: StepModel) -> None:
    """Every coefficient within a thousandth, and whether tokens ride along."""
    found = fit(steps_of(model))
    assert found.rides is model.rides
    assert astuple(found) == pytest.approx(astuple(model), rel=1e-3, abs=1e-12)


@pytest.mark.parametrize("model", [CPU, GPU], ids=["adds", "rides"])
@given(seed=st.integers(0, 50))
def test_noise_does_not_move_it_far(model: StepModel, seed: int) -> None:
    """With 3 % of noise the truth is met within 5 % at nine of ten compositions."""
    found = fit(steps_of(model, 0.03, seed))
    errors = [abs(found.of(one) / model.of(one) - 1) for one in batches()]
    assert errors_of(errors).p90 < 0.05


def test_the_held_out_error_is_that_of_the_noise() -> None:
    """No noise: none; 10 % of noise: about its own quantiles, 6.7 and 16.4 %."""
    assert held_out(steps_of(CPU)).p90 < 1e-6
    found = held_out(steps_of(CPU, 0.10))
    assert 0.05 < found.median < 0.09
    assert 0.12 < found.p90 < 0.22


@given(st.lists(st.floats(0.001, 10.0), min_size=48, max_size=48))
def test_no_coefficient_is_below_zero(seconds: list[float]) -> None:
    """Whatever was measured, and the fit is no worse than a constant."""
    points = [Point(batch, took) for batch, took in zip(batches(), seconds, strict=True)]
    found = fit(points)
    assert min(found.fixed_s, found.token_s, found.context_s, found.sequence_s, found.attention_s) >= 0
    assert sum((found.fixed_s, found.token_s, found.sequence_s, found.context_s, found.attention_s)) > 0
    best = sum(1 / one for one in seconds) / sum(1 / one**2 for one in seconds)
    flat = sum((best / one - 1) ** 2 for one in seconds)
    assert sum((found.of(one.batch) / one.seconds - 1) ** 2 for one in points) <= flat * (1 + 1e-9)


def test_no_small_change_of_a_coefficient_fits_better() -> None:
    """The minimum is one: each coefficient a little up or down loses."""
    points = steps_of(CPU, 0.1)

    def loss(model: StepModel) -> float:
        return sum((model.of(one.batch) / one.seconds - 1) ** 2 for one in points)

    found = fit(points)
    for name in ("fixed_s", "token_s", "context_s", "sequence_s", "attention_s"):
        value = getattr(found, name)
        for other in (value * 1.02 + 1e-9, value * 0.98):
            assert loss(replace(found, **{name: other})) >= loss(found)


@pytest.mark.parametrize("seconds", [0.0, -0.01, math.nan, math.inf])
def test_an_impossible_duration_is_refused(seconds: float) -> None:
    """The refusal names the point and says what to do."""
    points = steps_of(CPU)
    points[3] = Point(points[3].batch, seconds)
    for one in (fit, held_out):
        with pytest.raises(InvalidField, match="measure again") as refusal:
            one(points)
        assert refusal.value.param == "points[3].seconds"


@pytest.mark.parametrize("known", [0, 2, LEAST_POINTS - 1])
def test_few_compositions_are_refused(known: int) -> None:
    """Two points fit any line; the same composition measured often is one."""
    points = steps_of(CPU)[:known]
    for few in (points, points * 20):
        with pytest.raises(InvalidField, match="vary batch, prompt and context") as refusal:
            fit(few)
        assert refusal.value.param == "points"
    assert fit(steps_of(CPU)[:LEAST_POINTS]).fixed_s > 0
