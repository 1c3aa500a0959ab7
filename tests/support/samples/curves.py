"""Curves for tests."""

from penstock.domain.models.curves import Curve, Origin
from penstock.domain.models.steps import StepModel

SMOLLM2 = StepModel(
    fixed_s=0.0172, token_s=0.000671, context_s=3.62e-6, sequence_s=0.000094, attention_s=5.4e-7, rides=False
)
"""SmolLM2-135M on one core, as real vLLM was measured."""


def curve(hardware: str = "cpu x1", *, at: float = 1000.0, points: int = 40, origin: Origin = Origin.BENCH) -> Curve:
    return Curve(
        model=SMOLLM2,
        hardware=hardware,
        measured_at=at,
        points=points,
        error_median=0.04,
        error_p90=0.1,
        disturbed=0.0,
        origin=origin,
    )
