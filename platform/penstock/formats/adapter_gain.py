"""Upper bound of a LoRA adapter's gain: finite matrices may still overflow in an engine's precision.

Packaging refuses an adapter beyond the bound before it signs, a worker before it loads. Pure except for reading.
"""

import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from penstock.formats.finite import BYTES, largest
from penstock.formats.safetensors_header import pieces_of, reader_of, tensors_of

MOST = {"float32": 1e8, "bfloat16": 1e8, "float16": 1e6}
"""The factor by which a pair of matrices may multiply its input, by the engine's precision.

Between two norms a value passes at most three pairs: those of a gate and its neighbour, whose products are multiplied
with each other, and then the down projection. So 1e8 leaves (1e8 ** 3) * (1e3 ** 2) = 1e30 of an input of 1e3, and the
largest number is 3e38: the rest is for the base. Trained adapters stay far below: values of 0.5, rank 512, scale 2 and
14,336 inputs give 4e6, which no training reaches in both matrices at once; usual ones give less than 1e4. Float16 ends
at 65,504, so no bound can be both safe and above trained values: the worker's probe decides there.
"""
MOST_SCALE = 1e4
"""The largest ``lora_alpha`` and factor of B: representable in each precision; trained ones stay below a hundred."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoraPair:
    most_a: float
    most_b: float
    inputs: int
    rank: int

    def fault(self, scale: float, dtype: str) -> str:
        """Return a sentence if the module may exceed the bound of this precision; empty if it cannot.

        The largest output is at most the largest input times ``|A| * inputs * |B| * scale * rank``, with the largest
        value of each matrix.
        """
        first, second = self.most_a * self.inputs, self.most_b * scale * self.rank
        gain, bound = max(1.0, first) * max(1.0, second), MOST.get(dtype, MOST["float16"])
        if gain <= bound:
            return ""
        product = f"|A| {self.most_a:.1e} * {self.inputs} inputs * |B| {self.most_b:.1e} * scale {scale:.4g}"
        return (
            f"may multiply its input by {gain:.1e} ({product} * rank {self.rank}), "
            f"above the {bound:.0e} that are allowed in {dtype}"
        )


def scale_of(rank: int, alpha: float, *, is_rank_stabilised: bool) -> float:
    """Return the engine's factor for B matrices (LoRA; rsLoRA, arXiv 2312.03732)."""
    return alpha / (math.sqrt(rank) if is_rank_stabilised else rank)


def fault_of(path: Path, scale: float, dtype: str) -> str:
    """Return the first tensor that is not finite or exceeds the gain bound, in words; empty if none does."""
    if not 0 < scale <= MOST_SCALE:
        return f"its scale of {scale:.4g} is above {MOST_SCALE:,.0f}, or no number above 0"
    with path.open("rb") as file:
        begin, tensors = tensors_of(reader_of(file), path.stat().st_size, path.name)
        read = partial(pieces_of, file, begin, name=path.name)
        most = {name: largest(read(tensor), tensor.dtype) for name, tensor in tensors.items() if tensor.dtype in BYTES}
    if name := next((name for name, found in most.items() if not math.isfinite(found)), ""):
        return f"{name} has numbers that are none (NaN or infinite)"
    for name, found in most.items():
        if name.endswith(".lora_A.weight") and len(tensors[name].shape) == len(("rank", "inputs")):
            rank, inputs = tensors[name].shape
            other = most.get(f"{name.removesuffix('A.weight')}B.weight", 0.0)
            fault = LoraPair(most_a=found, most_b=other, inputs=inputs, rank=rank).fault(scale, dtype)
            if fault:
                return f"{name} {fault}"
    return ""
