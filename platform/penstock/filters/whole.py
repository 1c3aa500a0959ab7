"""Judges a whole text at once: what every judgement of its pieces has to equal."""

from collections.abc import Sequence

from penstock.filters.judge import Found, Judge
from penstock.filters.normal import normal
from penstock.filters.pack import Pack


def spans(judge: Judge, text: str) -> list[Found]:
    """Return the matches; start and end are in characters of ``text``."""
    judged, owners = normal(text)
    return [Found(rule, owners[start], owners[end - 1] + 1) for rule, start, end in judge.find(judged)]


def matched(pack: Pack, texts: Sequence[str]) -> list[set[str]]:
    """Return for each text the names of the rules that match it."""
    judge = Judge(pack.rules)
    return [{pack.rules[found.rule].name for found in spans(judge, text)} for text in texts]
