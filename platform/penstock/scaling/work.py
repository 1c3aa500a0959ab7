"""Asked work in worker-seconds a second, from the step model at the largest batch that objectives and memory allow.
Pure.

Utilisation is not used: a busy GPU does not show how much more work it could take (ADR 0113). Trade-off: mean lengths
stand for all requests; target load covers their spread.
"""

from dataclasses import dataclass

from penstock.domain.fleet.demand import Rate
from penstock.domain.models.steps import StepModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    steps: StepModel
    seqs_most: int
    """The engine's ``max_num_seqs``."""
    kv_tokens: int = 0
    """Tokens that its KV cache holds; 0 if the cache never binds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """``prompt`` tokens to compute (without cached ones), ``output`` tokens, mean ``context`` in the cache."""

    prompt: float
    output: float
    context: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """A worker's speed for a mean request: the batch, and worker-seconds per request."""

    batch: int
    request_s: float
    prefill_s: float
    meets_itl: bool = True
    """False if a batch of one is slower than the objective: more workers do not mend that."""


def shape_of(rate: Rate, uncached_ratio: float) -> Shape:
    prompt, output = rate.prompt_tokens / rate.requests, rate.output_tokens / rate.requests
    return Shape(prompt=prompt * uncached_ratio, output=output, context=prompt + output / 2)


def speed(curve: Curve, shape: Shape, itl_s: float) -> Speed:
    steps, context = curve.steps, max(1, round(shape.context))
    most = max(1, min(curve.seqs_most, curve.kv_tokens // context if curve.kv_tokens else curve.seqs_most))
    prefill_s = steps.seconds(decoding=0, prompt=round(shape.prompt))
    if shape.output < 1.0:
        return Speed(batch=most, request_s=prefill_s, prefill_s=prefill_s)
    brought = shape.prompt / shape.output
    fits = steps.batch(itl_s, context=context, prompt=brought, most=most) if itl_s else most
    batch = max(1, fits)
    step_s = steps.seconds(decoding=batch, prompt=round(brought * batch), context=context * batch)
    return Speed(
        batch=batch,
        request_s=shape.output * step_s / batch,
        prefill_s=prefill_s,
        meets_itl=fits > 0,
    )
