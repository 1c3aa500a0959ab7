"""Finds a policy's matches in a text with RE2: linear time, one pass for all rules, positions only for those that hit.

A pass over the held tail costs as much as Hyperscan's stream mode, so no state beside the tail is kept.
"""

import re
from collections.abc import Callable, Iterator, Sequence

import re2

from penstock.filters import shape
from penstock.filters.normal import forms
from penstock.filters.pack import Check, Found, Rule
from penstock.filters.sentences import classifiers

_MEMORY_BYTES = 64 << 20
"""Memory of a pass's states: RE2 starts anew when it is full, so it bounds speed, not what is found."""


def options() -> re2.Options:
    chosen = re2.Options()
    chosen.encoding = re2.Options.Encoding.LATIN1
    chosen.longest_match = True
    chosen.log_errors = False
    chosen.max_mem = _MEMORY_BYTES
    return chosen


class Judge:
    """Compiled rules: milliseconds for hundreds, a second for ``MOST_PHRASES``."""

    __slots__ = ("_rules", "_set", "_singles", "classifiers", "suspects")

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = [(at, rule.check) for at, rule in enumerate(rules) if not rule.judge]
        each = [b"|".join(b"(?:%b)" % one for one in expressions(rules[at])) for at, _ in self._rules]
        self._singles = [re2.compile(one, options()) for one in each]
        self._set = re2.Set.SearchSet(options())
        for one in each:
            self._set.Add(one)
        self._set.Compile()
        self.suspects: Callable[[bytes], Sequence[int]] = self._set._set.Match  # noqa: SLF001 - its wrapper costs half a pass
        self.classifiers = classifiers(rules)

    def find(self, text: bytes) -> Sequence[Found]:
        """Return the matches: at each start the longest. Their union holds every text that a rule matches."""
        return [found for one in self.suspects(text) for found in self._of(one, text)]

    def _of(self, suspect: int, text: bytes) -> Iterator[Found]:
        single, (rule, spans) = self._singles[suspect], self._rules[suspect]
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


_META = frozenset(r"\.+*?()[]{}|^$-")


def expressions(rule: Rule) -> list[bytes]:
    return [shape.of(rule.regex).regex.encode()] if rule.regex else [_phrase(phrase) for phrase in rule.phrases]


def _phrase(phrase: str) -> bytes:
    """Return a phrase in any case, as whole words if it ends in an ASCII letter or digit."""
    every = forms(phrase)
    first, last = (r"\b" if one.isascii() and one.isalnum() else "" for one in (every[0][0], every[0][-1]))
    return f"(?i:{first}(?:{'|'.join(''.join(map(_character, one)) for one in every)}){last})".encode()


def _character(one: str) -> str:
    if one == " ":
        return r"[ \t\n\v\f\r]+"
    return "\\" + one if one in _META else one


Spans = Iterator[tuple[int, int]]
_CARD_DIGITS = range(13, 20)
_IBAN_CHARACTERS = range(15, 35)
_GROUP = re.compile(r"[0-9]+")
_IBAN_HEAD = re.compile(r"(?:\b|(?<=_))[A-Z]{2}[0-9]{2}", re.IGNORECASE)


def cards(text: str) -> Spans:
    """Yield the spans of card numbers: whole groups of digits, together 13 to 19, with a right Luhn sum."""
    groups = [found.span() for found in _GROUP.finditer(text)]
    for at, (start, _) in enumerate(groups):
        number = ""
        for first, end in groups[at:]:
            number += text[first:end]
            if len(number) >= _CARD_DIGITS.stop:
                break
            if len(number) in _CARD_DIGITS and luhn(number):
                yield start, end


def luhn(number: str) -> bool:
    doubled = (int(digit) * 2 for digit in number[-2::-2])
    return (sum(map(int, number[::-2])) + sum(digit - 9 * (digit > 9) for digit in doubled)) % 10 == 0  # noqa: PLR2004


def ibans(text: str) -> Spans:
    for found in _IBAN_HEAD.finditer(text):
        number, start = "", found.start()
        for end, one in enumerate(text[start:], start + 1):
            if not one.isalnum():
                continue
            number += one
            is_whole = end == len(text) or not text[end].isalnum()
            if is_whole and len(number) in _IBAN_CHARACTERS and _remainder(number) == 1:
                yield start, end


def _remainder(number: str) -> int:
    return int("".join(str(int(one, 36)) for one in number[4:] + number[:4])) % 97


SPANS: dict[Check, Callable[[str], Spans]] = {Check.LUHN: cards, Check.IBAN: ibans}
