"""Token counts of a request, and a token's weight for an engine.

A decoded token occupies the batch for a whole step, a prompt token a share of one: outputs count double, as in VTC
(Sheng et al., OSDI'24) with w_p = 1 and w_q = 2.
"""

from dataclasses import dataclass

PROMPT_WEIGHT = 1.0
OUTPUT_WEIGHT = 2.0
"""Weight of an output token relative to a prompt token, in the gate's queue and the engine's steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """``cached_tokens`` are prompt tokens found in the prefix cache. ``exact`` is False if the engine's count never
    arrived, and the gateway counted the stream instead.
    """

    prompt_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    exact: bool = True

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.output_tokens


UNKNOWN = Usage(exact=False)
"""Usage that is not reported yet."""
