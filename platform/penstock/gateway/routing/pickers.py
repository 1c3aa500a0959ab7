"""Who gets it, given the scores. Pure; chance is an argument.

Trade-off: always taking the best sends everything to one worker between two reports of load (herding), all the more
with several gateways. Scores within ``TIE`` of the best count as equal, and chance decides among them.
"""

import random
from collections.abc import Sequence

TIE = 0.01


def best(scores: Sequence[float], chance: random.Random) -> int:
    """Return the index of the best score; chance among those that are as good."""
    top = max(scores)
    tied = [index for index, score in enumerate(scores) if score >= top - TIE]
    return tied[0] if len(tied) == 1 else chance.choice(tied)
