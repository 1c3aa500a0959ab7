"""Checks of numbers that a regex found: a card's Luhn sum (ISO/IEC 7812-1), an IBAN's remainder (ISO 13616). Pure."""

import re
from collections.abc import Callable, Iterator

from penstock.filters.pack import Check

Spans = Iterator[tuple[int, int]]
_CARD_DIGITS = range(13, 20)
_IBAN_CHARACTERS = range(15, 35)
_GROUP = re.compile(r"[0-9]+")
_IBAN_HEAD = re.compile(r"\b[A-Z]{2}[0-9]{2}", re.IGNORECASE)


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
