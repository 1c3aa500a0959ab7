"""Finds a policy's matches in a text with RE2: linear time, one pass for all rules, positions only for those that hit.

A pass over the held tail costs as much as Hyperscan's stream mode, so no state beside the tail is kept.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import re2

from penstock.filters.checks import SPANS
from penstock.filters.pack import Rule
from penstock.filters.patterns import expressions

_MEMORY_BYTES = 64 << 20
"""Memory of a pass's states: RE2 starts anew when it is full, so it bounds speed, not what is found."""


class Found(NamedTuple):
    """``rule`` is the index of the rule, ``start`` and ``end`` are offsets in bytes."""

    rule: int
    start: int
    end: int


def options() -> re2.Options:
    chosen = re2.Options()
    chosen.encoding = re2.Options.Encoding.LATIN1
    chosen.longest_match = True
    chosen.log_errors = False
    chosen.max_mem = _MEMORY_BYTES
    return chosen


class Judge:
    """Compiled rules: milliseconds for hundreds, a second for ``MOST_PHRASES``."""

    __slots__ = ("_rules", "_set", "_singles", "_suspects")

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = rules
        each = [expressions(rule) for rule in rules]
        self._singles = [re2.compile(b"|".join(b"(?:%b)" % one for one in some), options()) for some in each]
        self._set = re2.Set.SearchSet(options())
        for some in each:
            self._set.Add(b"|".join(b"(?:%b)" % one for one in some))
        self._set.Compile()
        self._suspects = self._set.Match

    def find(self, text: bytes) -> Sequence[Found]:
        """Return the matches: at each start the longest. Their union holds every text that a rule matches."""
        suspects = self._suspects(text)
        return [found for rule in suspects for found in self._of(rule, text)] if suspects else ()

    def _of(self, rule: int, text: bytes) -> Iterator[Found]:
        single, spans = self._singles[rule], self._rules[rule].check
        at = 0
        while (hit := single.search(text, at)) is not None:
            start, end = hit.span()
            if spans is None:
                yield Found(rule, start, end)
            else:
                inside = text[start:end].decode("latin-1")
                for first, last in SPANS[spans](inside):
                    yield Found(rule, start + first, start + last)
            at = start + 1
