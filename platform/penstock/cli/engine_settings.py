"""Engine settings of a version as they are written on the command line."""

from collections.abc import Sequence
from dataclasses import fields

from penstock.domain.command_error import CommandError
from penstock.domain.models.model import EngineSettings

NAMES = tuple(one.name for one in fields(EngineSettings) if one.type is int and one.name != "tensor_parallel_size")
"""Those that are whole numbers; over how many GPUs an engine spreads has an option of its own."""
DTYPES = ("bfloat16", "float16", "float32")


def parsed(texts: Sequence[str]) -> dict[str, int | str]:
    """Return settings by name from ``NAME=NUMBER`` and ``dtype=NAME``; raises ``CommandError``."""
    found: dict[str, int | str] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if name == "dtype" and value in DTYPES:
            found[name] = value
        elif name in NAMES and value.isdecimal():
            found[name] = int(value)
        else:
            raise CommandError(
                f"{text!r} is no setting of an engine.",
                do=f"Write NAME=NUMBER, for example max_num_seqs=64; there are {', '.join(NAMES)}, "
                f"and dtype, which is one of {', '.join(DTYPES)}.",
            )
    return found
