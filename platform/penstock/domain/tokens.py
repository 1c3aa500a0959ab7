"""Token counts of one request."""

from dataclasses import dataclass


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
