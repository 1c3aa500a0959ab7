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
    """Engine steps that made the request's tokens, once for each sequence; None if not counted."""
    beside: int | None = None
    """Sequences in those steps, the request's own included."""
    engine_us: int | None = None
    """Engine microseconds of the request: its part of each step, divided equally among the requests in the step."""
    waited_s: float | None = None
    """Seconds waited in the gate's queue; None while it waits."""


NOTHING = Used()
"""It never ran."""
