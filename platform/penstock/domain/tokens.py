"""Token counts of one request, and what a token costs an engine.

A decoded token occupies the batch for a whole step, a prompt token for a share of one: outputs count double,
as in VTC (Sheng et al., OSDI'24), whose weights are w_p = 1 and w_q = 2.
"""

from dataclasses import dataclass

PROMPT_WEIGHT = 1.0
OUTPUT_WEIGHT = 2.0
"""Tokens of service for one that is read and for one that is made, at the gate's door and in the engine's steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a request consumed; ``cached_tokens`` are those of the prompt found in the prefix cache.

    ``exact`` is False where the engine's own count never came and the stream was counted instead.
    """

    prompt_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    exact: bool = True

    @property
    def total_tokens(self) -> int:
        """Prompt and output together."""
        return self.prompt_tokens + self.output_tokens


UNKNOWN = Usage(exact=False)
"""Nobody has told yet."""
