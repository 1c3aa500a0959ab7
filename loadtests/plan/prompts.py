"""Prompts as recipes: which texts follow one another, each by its name and length, so that a plan stays small.

Equal recipes give equal text up to the point where they part, which is what a prefix cache sees. The words are common
ones that most tokenizers spell as one token each; how many it were, the target's usage says.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from loadtests.plan.fits import Sharing
from loadtests.plan.lengths import drawn

Piece = tuple[str, int]
"""A text's name, and how many of its first words are taken."""
TRIES = 32
"""How many earlier prompts are looked at for one that is long enough."""
WORDS = (
    "time year people way day man thing woman life child world school state family student group country problem "
    "hand part place case week company system program question work government number night point home water room "
    "mother area money story fact month lot right study book eye job word business issue side kind head house "
    "service friend father power hour game line end member law car city community name president team minute idea "
    "kid body back parent face others level office door health person art war history party result change morning "
    "reason research girl guy moment air teacher force education foot boy age policy music market sense nation "
    "plan college interest death"
).split()


def length(pieces: Sequence[Piece]) -> int:
    """Return how many words a recipe has."""
    return sum(words for _, words in pieces)


def first(pieces: Sequence[Piece], words: int) -> tuple[Piece, ...]:
    """Return the recipe of the first words of another."""
    kept: list[Piece] = []
    for name, size in pieces:
        if words <= 0:
            break
        kept.append((name, min(size, words)))
        words -= size
    return tuple(kept)


def text(pieces: Sequence[Piece], salt: str) -> str:
    """Return the words; another salt gives other ones, which no cache has seen."""
    return " ".join(word for name, size in pieces for word in random.Random(f"{salt}:{name}").choices(WORDS, k=size))


@dataclass
class Writer:
    """Makes the prompts of one tenant in order; with ``sharing`` some continue an earlier one."""

    tenant: str
    sharing: Sharing | None
    scale: float
    """What lengths are multiplied by, the system prompt's too."""
    chance: random.Random

    def __post_init__(self) -> None:
        self._made: list[tuple[Piece, ...]] = []

    def prompt(self, words: int, rank: float) -> tuple[Piece, ...]:
        """Return the next prompt, of this many words; ``rank`` is the share of prompts that are shorter."""
        shared = self._shared(words, rank)
        rest = words - length(shared)
        made = (*shared, (f"{self.tenant}-{len(self._made)}", rest)) if rest > 0 else shared
        self._made.append(made)
        return made

    def _shared(self, words: int, rank: float) -> tuple[Piece, ...]:
        if self.sharing is None:
            return ()
        system = ((f"{self.tenant}-system", min(words, max(1, round(self.sharing.system_tokens * self.scale)))),)
        ratios = self.sharing.continues_ratio
        if not self._made or self.chance.random() >= ratios[min(len(ratios) - 1, int(rank * len(ratios)))]:
            return system
        wanted = max(length(system), round(words * min(1.0, drawn(self.sharing.shared_ratio, self.chance))))
        return first(max((self._earlier() for _ in range(TRIES)), key=lambda made: min(wanted, length(made))), wanted)

    def _earlier(self) -> tuple[Piece, ...]:
        assert self.sharing is not None  # noqa: S101  for the type checker
        back = max(1, round(drawn(self.sharing.requests_back, self.chance)))
        return self._made[-min(back, len(self._made))]
