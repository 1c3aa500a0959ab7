"""What a gate counted of one request beside the engine: the bill. Its header is in docs/reference/wire.md."""

from dataclasses import dataclass

HEADER = "x-penstock-used"
"""A header of whole answers."""
COMMENT = b": penstock-used "
"""A line in front of a stream's last event; no client ever sees it."""
_FIELDS = 5
_SHARED = 3


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
    steps: int | None = None
    """Engine steps that made its tokens, once for each sequence; None where nobody counts them."""
    beside: int | None = None
    """Sequences in those steps, its own included."""
    engine_us: int | None = None
    """Microseconds of the engine: its parts of those steps, and of those that read its prompt, each in equal parts for
    all that were in it."""
    waited_s: float | None = None
    """How long it waited at the door, for whoever asks; None while it does. In answers a header of its own tells it."""


NOTHING = Used()
"""It never ran."""


def told(used: Used) -> bytes:
    """Return the counts as they stand in a header or a comment."""
    fields = (used.prompt_tokens, used.cached_tokens, used.output_tokens, used.sequences, used.prompts)
    value = b"%d,%d,%d,%d,%d" % fields
    for more in (used.steps, used.beside, used.engine_us):
        if more is None:
            break
        value = b"%b,%d" % (value, more)
    return value


def heard(value: bytes) -> Used | None:
    """Return what a gate told; None where it told nothing, or nonsense. A newer gate may say more."""
    fields = value.strip().split(b",", _FIELDS + _SHARED)
    counts = _whole(fields[:_FIELDS])
    if len(counts) < _FIELDS:
        return None
    prompt, cached, output, sequences, prompts = counts
    steps, beside, engine_us = (_one(fields, at) for at in range(_FIELDS, _FIELDS + _SHARED))
    return Used(
        prompt_tokens=prompt,
        cached_tokens=min(cached, prompt),
        output_tokens=output,
        sequences=sequences,
        prompts=prompts,
        steps=steps,
        beside=beside,
        engine_us=engine_us,
    )


def _one(fields: list[bytes], at: int) -> int | None:
    """Return the number at a place; None where there is none, or nonsense."""
    return next(iter(_whole(fields[at : at + 1])), None)


def _whole(fields: list[bytes]) -> list[int]:
    """Return the numbers, none at all where one of them is nonsense."""
    try:
        numbers = [int(field) for field in fields]
    except ValueError:
        return []
    return numbers if all(number >= 0 for number in numbers) else []
