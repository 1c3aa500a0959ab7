"""Which few of many workers a pick looks at: the power of d choices. Pure; chance is an argument.

Trade-off: the best of all workers is best for one request alone. With reports that are a second old every gateway
knows the same best one, and all send to it (herding); the better of a few drawn by chance is nearly as good, can't be
herded, and costs the same in a fleet of ten and of ten thousand.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleSettings:
    """``choices`` are drawn; again, up to ``rounds`` times, while fewer than ``enough`` of them may be asked."""

    choices: int = 6
    rounds: int = 4
    enough: int = 2
    watched: int = 64
    """How many are looked at to tell how busy a version is."""


def draw(among: Sequence[T], many: int, chance: random.Random) -> list[T]:
    """Return ``many`` different ones, all of them where there are no more."""
    size = len(among)
    if size <= many:
        return list(among)
    drawn: dict[int, None] = {}
    while len(drawn) < many:
        drawn[int(chance.random() * size)] = None
    return [among[index] for index in drawn]
