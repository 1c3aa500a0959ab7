"""The result of a comparison between two answers to one request. Pure.

Answers with a form (requested JSON, labels) agree if they are equal. Texts agree if both models find the same token
likeliest at each position of the caller's answer, so sampling doesn't count. It takes the same tokenizer.
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
    """Tell whether a copy's end says anything of its model; a shed one's does not."""
    return outcome in _TELLING


def by_form(one: bytes, other: bytes | None) -> Counts:
    if other is None:
        return ONE._replace(untold=1)
    return ONE._replace(forms=1, forms_agreed=int(one == other))


def by_score(differs: float | None) -> Counts:
    """Return the counts of two texts by their differing share of tokens; None if unscored."""
    if differs is None:
        return ONE._replace(untold=1)
    return ONE._replace(texts=1, texts_agreed=int(differs <= DIFFERS), alike=round(PERCENT * (1 - differs)))


def priced(counts: Counts, paid: int | None, other: int | None) -> Counts:
    return counts if paid is None or other is None else counts._replace(paid=paid, other_paid=other)
