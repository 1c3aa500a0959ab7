"""Asked work by the step model: the batch that objectives and memory allow, and what a request costs there."""

import pytest

from penstock.domain.fleet.demand import Rate
from penstock.domain.models.steps import StepModel
from penstock.scaling.work import Curve, Shape, shape_of, speed

STEPS = StepModel(fixed_s=0.010, token_s=0.0001, context_s=1e-6, sequence_s=0.0005, rides=False)
SHAPE = Shape(prompt=100.0, output=50.0, context=125.0)


def test_a_mean_request_is_the_rates_own() -> None:
    """200 prompt tokens and 50 of output a second at 2 requests; a quarter of prompts is cached."""
    found = shape_of(Rate(requests=2.0, prompt_tokens=200.0, output_tokens=50.0), 0.75)
    assert found == Shape(prompt=75.0, output=25.0, context=112.5)


def test_the_objective_bounds_the_batch() -> None:
    """The step at the batch is within the objective, one more sequence would break it."""
    curve = Curve(steps=STEPS, seqs_most=256)
    found = speed(curve, SHAPE, 0.05)
    step_s, one_more_s = (
        STEPS.seconds(decoding=batch, prompt=2 * batch, context=125 * batch) for batch in (found.batch, found.batch + 1)
    )
    assert step_s <= 0.05 < one_more_s
    assert found.request_s == pytest.approx(50 * step_s / found.batch)
    assert found.prefill_s == STEPS.seconds(decoding=0, prompt=100)


def test_seats_and_memory_bound_it_too() -> None:
    """The engine's own batch and its cache bound it like the objective, or alone."""
    assert speed(Curve(steps=STEPS, seqs_most=4), SHAPE, 0.05).batch == 4
    assert speed(Curve(steps=STEPS, seqs_most=256, kv_tokens=1000), SHAPE, 0.05).batch == 1000 // 125
    assert speed(Curve(steps=STEPS, seqs_most=300), SHAPE, 0.0).batch == 300


def test_an_objective_that_no_batch_meets_is_said() -> None:
    """One request alone is slower: it counts at a batch of one, and says that workers do not mend it."""
    found = speed(Curve(steps=STEPS, seqs_most=8), SHAPE, 0.005)
    assert (found.batch, found.meets_itl) == (1, False)
    assert speed(Curve(steps=STEPS, seqs_most=8), SHAPE, 0.05).meets_itl


def test_what_decodes_nothing_costs_its_prompt() -> None:
    """An embedding is one step with its prompt."""
    found = speed(Curve(steps=STEPS, seqs_most=8), Shape(prompt=100.0, output=0.0, context=100.0), 0.0)
    assert found.request_s == STEPS.seconds(decoding=0, prompt=100)


def test_a_cache_smaller_than_a_request_still_takes_one() -> None:
    """Less memory than one mean request needs leaves a batch of one."""
    assert speed(Curve(steps=STEPS, seqs_most=8, kv_tokens=10), SHAPE, 0.05).batch == 1


def test_one_token_of_output_is_decoded() -> None:
    """An answer of one token has its prompt in a step like any other: the objective bounds the batch."""
    one = Shape(prompt=100.0, output=1.0, context=100.0)
    assert speed(Curve(steps=STEPS, seqs_most=8), one, 0.05).batch == 3
