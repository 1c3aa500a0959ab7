"""The seconds of one engine step, from its batch: the only model of an engine's speed. Pure.

A step reads all weights and computes each of its tokens, whichever is slower; it reads the context of every decoding
sequence, and has a cost per sequence. Prompt tokens attend to the tokens before them.

Source: least squares over vLLM 0.32's steps; form and data-sheet constants after Vidur's kernel profiles (MLSys 2024).
Trade-off: five numbers can be fitted in minutes and explained; jumps of kernel times between batch sizes are averaged.
"""

from dataclasses import dataclass

from penstock.control.capacity.gpus import Gpu
from penstock.domain.models.architecture import Architecture

WEIGHTS_READ, CONTEXT_READ = 0.70, 0.60
"""Parts of a GPU's bandwidth reached while reading weights and KV cache."""
WIDE_READ, WIDE = 0.60, 8
"""The part for weights from this tensor parallelism on: slices are thin."""
SEQUENCE_S = 10e-6
"""Seconds per sequence in the batch: sampling, and the scheduler."""
EXCHANGE_S = 24e-6
"""Seconds of a layer's two exchanges between GPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepModel:
    """Seconds of a step. All numbers are finite and at least zero; ``fixed_s`` or ``token_s`` is above zero."""

    fixed_s: float
    """Seconds of any step: the weights are read once."""
    token_s: float
    """Seconds per token of the step, prompt or decode, once tokens dominate the weights."""
    context_s: float
    """Seconds per context token of decoding sequences."""
    sequence_s: float
    """Seconds per decoding sequence."""
    attention_s: float = 0.0
    """Seconds per pair of a prompt token and an earlier token."""
    rides: bool = True
    """True if tokens cost nothing until they exceed the weights' time (a GPU); False adds both (a CPU)."""

    def seconds(self, *, decoding: int, prompt: int = 0, context: int = 0, offset: int = 0) -> float:
        """Return the seconds of a step.

        ``prompt`` tokens follow ``offset`` tokens of their prompt; ``context`` is summed over all ``decoding``
        sequences.
        """
        tokens = self.token_s * (decoding + prompt)
        base = max(self.fixed_s, tokens) if self.rides else self.fixed_s + tokens
        pairs = prompt * (offset + prompt / 2)
        return base + self.context_s * context + self.sequence_s * decoding + self.attention_s * pairs

    def prompt_tokens(self, bound_s: float, *, decoding: int, context: int) -> int:
        """Return the most prompt tokens that a step with this batch can take within the bound."""
        low, high = 0, 1 << 20
        while low < high:
            middle = (low + high + 1) // 2
            if self.seconds(decoding=decoding, prompt=middle, context=context) <= bound_s:
                low = middle
            else:
                high = middle - 1
        return low

    def batch(self, bound_s: float, *, context: int, prompt: float = 0.0, most: int) -> int:
        """Return the largest batch with steps within the bound.

        ``context`` is per sequence, ``prompt`` the average prompt tokens per sequence and step.
        """
        fits = 0
        for size in range(1, most + 1):
            brought = round(prompt * size)
            if self.seconds(decoding=size, prompt=brought, context=context * size) > bound_s:
                break
            fits = size
        return fits


def from_datasheet(model: Architecture, on: Gpu, *, tensor_parallel: int = 1, kv_bytes: float = 2.0) -> StepModel:
    """Return the step model of an unmeasured GPU, for planning only."""
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
