"""What a gate counted of one request, beside the engine: that is the bill. And how it is said on the wire (README)."""

from dataclasses import dataclass

HEADER = "x-penstock-used"
"""A header of whole answers."""
COMMENT = b": penstock-used "
"""A line in front of a stream's last event; no client ever sees it."""
_FIELDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """Prompt tokens count once for each prompt; output tokens and sequences over all prompts, choices and beams.

    ``is_final`` is False while the request runs.
    """

    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    sequences: int = 0
    prompts: int = 0
    is_final: bool = True


NOTHING = Used()
"""It never ran."""


def told(used: Used) -> bytes:
    """Return the counts as they stand in a header or a comment."""
    fields = (used.prompt_tokens, used.cached_tokens, used.output_tokens, used.sequences, used.prompts)
    return b"%d,%d,%d,%d,%d" % fields


def heard(value: bytes) -> Used | None:
    """Return what a gate told; None where it told nothing, or nonsense. A newer gate may say more."""
    fields = value.strip().split(b",", _FIELDS)
    try:
        prompt, cached, output, sequences, prompts = (int(field) for field in fields[:_FIELDS])
    except ValueError:
        return None
    if min(prompt, cached, output, sequences, prompts) < 0:
        return None
    return Used(
        prompt_tokens=prompt,
        cached_tokens=min(cached, prompt),
        output_tokens=output,
        sequences=sequences,
        prompts=prompts,
    )
