"""The rounds of a measurement: batches that show an engine all kinds of steps. Pure.

Prompts alone, at all lengths and chunks; batches that decode at several contexts; prompts beside batches that decode.
"""

from collections.abc import Iterator
from dataclasses import dataclass

OUTPUT = 12
"""Tokens that a batch decodes: four times as many steps as a composition needs."""
BESIDE_OUTPUT = 40
PROMPTS = (16, 48, 128, 384, 1024, 3072)
CONTEXTS = (16, 128, 512, 1400, 4096)
REPEATS = 3
BESIDE = (16, 48, 160)
"""Prompts that are read beside a batch that decodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineBounds:
    """The bounds of an engine: sequences, tokens of a sequence, tokens of the KV cache (0: not told)."""

    max_seqs: int
    max_model_len: int
    kv_tokens: int

    def holds(self, sequences: int, tokens: int) -> bool:
        fits = not self.kv_tokens or sequences * tokens <= self.kv_tokens
        return sequences <= self.max_seqs and tokens <= self.max_model_len and fits


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Sequences of one length that come together; then prompts that come one after another beside them."""

    sequences: int
    prompt: int
    output: int = OUTPUT
    beside: tuple[int, ...] = ()


def rounds(room: EngineBounds) -> Iterator[Round]:
    sizes = [size for size in (1, 2, 4, 8, 16, 32, 64, 128) if size <= room.max_seqs]
    alone = (Round(sequences=1, prompt=prompt, output=1) for prompt in PROMPTS for _ in range(REPEATS))
    batches = (Round(sequences=size, prompt=context) for context in CONTEXTS for size in sizes)
    mixed = (
        Round(sequences=size, prompt=64, output=BESIDE_OUTPUT, beside=(prompt,) * REPEATS)
        for size in sizes[1:]
        for prompt in BESIDE
    )
    for one in (*alone, *batches, *mixed):
        width = one.sequences + bool(one.beside)
        if room.holds(width, max(one.prompt + one.output, *one.beside, 0)):
            yield one
