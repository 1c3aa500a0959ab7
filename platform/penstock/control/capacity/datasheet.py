"""The step model of an unmeasured GPU, by its maker's data sheet: a default for planning, never a promise."""

from penstock.control.capacity.gpus import Gpu
from penstock.domain.models.architecture import Architecture
from penstock.domain.models.steps import StepModel

WEIGHTS_READ, CONTEXT_READ = 0.70, 0.60
"""Parts of a GPU's bandwidth that reading weights and KV cache reach."""
WIDE_READ, WIDE = 0.60, 8
"""The part for weights from this tensor parallelism on: their slices are thin."""
SEQUENCE_S = 10e-6
"""Of a sequence in the batch: sampling, and the scheduler."""
EXCHANGE_S = 24e-6
"""Of a layer's two exchanges between GPUs."""


def from_datasheet(model: Architecture, on: Gpu, *, tensor_parallel: int = 1, kv_bytes: float = 2.0) -> StepModel:
    stored = model.parameters
    weight_bytes = (stored.dense * model.bits + stored.active_experts * model.expert_bits) / 8
    computed = stored.dense + stored.active_experts
    read = WIDE_READ if tensor_parallel >= WIDE else WEIGHTS_READ
    cached = sum(layer.elements() for layer in model.layers) * kv_bytes
    exchange = EXCHANGE_S * len(model.layers) if tensor_parallel > 1 else 0.0
    return StepModel(
        fixed_s=weight_bytes / (tensor_parallel * read * on.bandwidth_per_s) + exchange,
        token_s=2 * computed / (tensor_parallel * on.reached * on.flops),
        context_s=cached / (tensor_parallel * CONTEXT_READ * on.bandwidth_per_s),
        sequence_s=SEQUENCE_S,
    )
