"""The seconds of one engine step by its contents: the platform's only model of an engine's speed.

A step takes the longer of two times, reading all weights or computing its tokens; in addition it reads the context of
every decoding sequence, and has a cost per sequence. Source: least squares over vLLM 0.32's steps; the form after
Vidur's kernel profiles (MLSys 2024).

Trade-off: kernels' jumps between batch sizes are averaged over.
"""

from dataclasses import dataclass
from typing import NamedTuple

LEAST_POINTS = 10
"""Compositions behind a curve at least: two for each of its five numbers, so that it cannot pass through all."""


class StepBatch(NamedTuple):
    decoding: int = 0
    prompt: int = 0
    """Prompt tokens."""
    context: int = 0
    """Tokens of context, of all decoding sequences."""
    pairs: float = 0.0
    """Pairs of a prompt token and a token before it."""


def pairs_of(prompt: float, offset: int = 0) -> float:
    """Attention pairs of ``prompt`` tokens that follow ``offset`` tokens of the same prompt."""
    return prompt * (offset + prompt / 2)


class Point(NamedTuple):
    batch: StepBatch
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StepModel:
    """All numbers are finite and at least zero; ``fixed_s`` or ``token_s`` is above zero."""

    fixed_s: float
    """Seconds of any step: the weights are read once."""
    token_s: float
    """Of a token of the step, prompt or decode, once they weigh more than the weights."""
    context_s: float = 0.0
    """Of a token of context of the sequences that decode."""
    sequence_s: float = 0.0
    """Of a sequence that decodes."""
    attention_s: float = 0.0
    """Seconds per pair of a prompt token and an earlier token."""
    rides: bool = True
    """True if tokens cost nothing until they exceed the weights' time (a GPU); False adds both (a CPU)."""

    def seconds(self, *, decoding: float, prompt: float = 0, context: float = 0, pairs: float = 0.0) -> float:
        tokens = self.token_s * (decoding + prompt)
        base = max(self.fixed_s, tokens) if self.rides else self.fixed_s + tokens
        return base + self.context_s * context + self.sequence_s * decoding + self.attention_s * pairs

    def of(self, batch: StepBatch) -> float:
        return self.seconds(decoding=batch.decoding, prompt=batch.prompt, context=batch.context, pairs=batch.pairs)

    def prompt_tokens(self, bound_s: float, *, decoding: int, context: int) -> int:
        """The most that a step with this batch can take within the bound."""
        low, high = 0, 1 << 20
        while low < high:
            middle = (low + high + 1) // 2
            pairs = pairs_of(middle)
            if self.seconds(decoding=decoding, prompt=middle, context=context, pairs=pairs) <= bound_s:
                low = middle
            else:
                high = middle - 1
        return low

    def batch(self, bound_s: float, *, context: int, prompt: float = 0.0, most: int) -> int:
        """Return the largest batch, at most ``most``, with steps within the bound.

        ``context`` is per sequence, ``prompt`` the average prompt tokens per sequence and step.
        """
        fits = 0
        for size in range(1, most + 1):
            brought = round(prompt * size)
            if self.seconds(decoding=size, prompt=brought, context=context * size) > bound_s:
                break
            fits = size
        return fits
