"""Judges a whole text at once: what every judgement of its pieces has to equal."""

from collections.abc import Sequence

from penstock.filters.judge import Judge
from penstock.filters.normal import ends, normal, starts, unescaped
from penstock.filters.pack import Found, Pack
from penstock.filters.sentences import Sentences

ESCAPE = "\\"
"""A text that has it is judged twice: as it is written, and as the inside of JSON strings."""


def spans(judge: Judge, text: str) -> list[Found]:
    """Return the matches; start and end are in characters of ``text``."""
    found = dict[Found, None]()
    for read in (normal, unescaped) if ESCAPE in text else (normal,):
        reading = read(text)
        judged, first, last = reading[0], starts(reading), ends(reading)
        found |= {Found(rule, first[start], last[end - 1]): None for rule, start, end in judge.find(judged)}
        found |= dict.fromkeys(Sentences(judge.classifiers).feed(judged, first, last, is_last=True))
    return list(found)


def matched(pack: Pack, texts: Sequence[str]) -> list[set[str]]:
    """Return for each text the names of the rules that match it."""
    judge = Judge(pack.rules)
    return [{pack.rules[found.rule].name for found in spans(judge, text)} for text in texts]
