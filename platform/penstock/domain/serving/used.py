"""The token usage that a gate counted for one request, independently of the engine: the basis of the bill."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """Counted usage: prompt tokens once for each prompt; output tokens and sequences over all prompts, choices and
    beams.

    ``is_final`` is False while the request runs.
    """

    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    sequences: int = 0
    prompts: int = 0
    is_final: bool = True
    steps: int | None = None
    """Engine steps that made its tokens, once for each sequence; None where nobody counts them."""
    beside: int | None = None
    """Sequences in those steps, its own included."""
    engine_us: int | None = None
    """Microseconds of the engine: its parts of those steps, and of those that read its prompt, each in equal parts for
    all that were in it."""
    waited_s: float | None = None
    """How long it waited at the door, for whoever asks; None while it does."""


NOTHING = Used()
"""It never ran."""
