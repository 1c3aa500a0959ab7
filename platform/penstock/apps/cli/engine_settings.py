"""Engine settings of a version as they are written on the command line."""

from collections.abc import Sequence
from dataclasses import fields

from penstock.domain.command_error import CommandError
from penstock.domain.model import EngineSettings

NAMES = tuple(one.name for one in fields(EngineSettings) if one.type is int and one.name != "tensor_parallel_size")
"""Those that are whole numbers; over how many GPUs an engine spreads has an option of its own."""


def parsed(texts: Sequence[str]) -> dict[str, int]:
    """Return settings by name from ``NAME=NUMBER``; raises ``CommandError``."""
    found: dict[str, int] = {}
    for text in texts:
        name, _, number = text.partition("=")
        if name not in NAMES or not number.isdecimal():
            raise CommandError(
                f"{text!r} is no setting of an engine.",
                do=f"Write NAME=NUMBER, for example max_num_seqs=64; there are {', '.join(NAMES)}.",
            )
        found[name] = int(number)
    return found
