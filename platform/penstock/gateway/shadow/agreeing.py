"""The result of a comparison between two answers to one request. Pure.

Answers that have a form (JSON that was asked for, labels) agree if they are equal. Texts agree if both models hold the
same token for the likeliest at each place of the caller's answer: whether the other model would have gone the same way,
not whether it happened to draw the same words. It takes the same tokenizer.
"""

from penstock.domain.outcome import Outcome
from penstock.domain.serving.agreement import PERCENT, Counts
from penstock.gateway.calls.call import ENGINES_WORD

DIFFERS = 0.1
"""Up to this part of its tokens two texts agree. What rounding does to one model stays below 0.07, four bits, a lost
template or a wrong position base are above 0.12 (``scoring``)."""
ANSWERED, ONE = Counts(answered=1), Counts(pairs=1)
_TELLING = ENGINES_WORD | {Outcome.BAD_REQUEST, Outcome.OK}


def is_told(outcome: Outcome | None) -> bool:
    """Tell whether the end of a copy says anything of the model that it was sent to; what was shed does not."""
    return outcome in _TELLING


def by_form(one: bytes, other: bytes | None) -> Counts:
    """Return the counts of two answers that have a form; ``other`` None if it could not be read."""
    if other is None:
        return ONE._replace(untold=1)
    return ONE._replace(forms=1, forms_agreed=int(one == other))


def by_score(differs: float | None) -> Counts:
    """Return the counts of two texts that differ at this part of their tokens; None if they were not scored."""
    if differs is None:
        return ONE._replace(untold=1)
    return ONE._replace(texts=1, texts_agreed=int(differs <= DIFFERS), alike=round(PERCENT * (1 - differs)))


def priced(counts: Counts, paid: int | None, other: int | None) -> Counts:
    """Return the counts with both prices, if both are known."""
    return counts if paid is None or other is None else counts._replace(paid=paid, other_paid=other)
