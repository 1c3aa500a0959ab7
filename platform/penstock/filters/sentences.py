"""What a classifier judges: a text sentence by sentence, a long one in parts of bounded length. Pure.

A part depends on the text alone, never on its cuts. Trade-off: a part is judged without what stands before it, so that
neighbours don't dilute its score and no text is held for longer than one part.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from penstock.filters.linear import Linear
from penstock.filters.pack import Action, Found, Rule

MOST_BYTES, MOST_PIECES = 40, 8
"""Of a part that has no end of a sentence: at most twelve tokens of prose or code."""
_END = re.compile(rb"\n|[.!?][\"')\]]{0,2}[ \t\r\v\f]")
_PIECES = re.compile(
    rb"(?: ?+(?>[A-Z]?[a-z]{1,7}|[A-Z]{1,2}|[\x80-\xff]{1,3}|[ \t\r\v\f]+|.)){%d}" % MOST_PIECES, re.DOTALL
)
"""Tokenizers cut letters, capitals and other alphabets into pieces; each digit, mark and indentation is one."""
_INSIDE = re.compile(rb"[0-9A-Za-z_\x80-\xff]{2}")
_WORD_END = re.compile(rb".*[^0-9A-Za-z_\x80-\xff]", re.DOTALL)
_CONTINUES, _CONTINUATION = 0xC0, 0x80
"""Bits of a byte of UTF-8 that begins no character."""

JUDGES: dict[str, Callable[[], Callable[[str], float]]] = {
    "toxicity": cache(
        lambda: Linear(files("penstock.filters.shipped").joinpath("toxicity.safetensors").read_bytes()).score
    )
}
"""Judges of a sentence by the names that rules give; each is read when the first policy asks it."""


class Classifier(NamedTuple):
    """``rule`` is the index of a rule that has a judge."""

    rule: int
    score: Callable[[str], float]
    threshold: float
    acts: bool


def classifiers(rules: Sequence[Rule]) -> tuple[Classifier, ...]:
    return tuple(
        Classifier(at, JUDGES[rule.judge](), rule.threshold, rule.action is not Action.OBSERVE)
        for at, rule in enumerate(rules)
        if rule.judge
    )


def part_end(judged: bytes, start: int) -> int:
    """Return the end of the part that begins at ``start``; 0 if it is not known yet."""
    limit = start + MOST_BYTES
    pieces = _PIECES.match(judged, start, limit)
    end = limit if pieces is None else pieces.end()
    if (found := _END.search(judged, start, end)) is not None:
        return found.end()
    if end >= len(judged):
        return 0
    if _INSIDE.match(judged, end - 1) and (found := _WORD_END.match(judged, start, end)) is not None:
        return found.end()
    while judged[end] & _CONTINUES == _CONTINUATION:
        end -= 1
    return end


class Sentences:
    """A judged text as it arrives; each byte knows its character."""

    __slots__ = ("_classifiers", "_ends", "_holds", "_judged", "_starts")

    def __init__(self, every: Sequence[Classifier]) -> None:
        self._classifiers, self._holds = every, any(one.acts for one in every)
        self._judged, self._starts, self._ends = b"", list[int](), list[int]()

    def copy(self) -> "Sentences":
        other = copy(self)
        other._starts, other._ends = self._starts.copy(), self._ends.copy()  # noqa: SLF001 - its own class's
        return other

    def agrees(self, other: "Sentences") -> bool:
        return (self._judged, self._starts, self._ends) == (other._judged, other._starts, other._ends)  # noqa: SLF001

    def held_from(self, end: int) -> int:
        """Return the first character that is not judged yet; ``end`` if all are, or if nothing would be done."""
        return self._starts[0] if self._starts and self._holds else end

    def feed(self, judged: bytes, starts: Sequence[int], ends: Sequence[int], *, is_last: bool) -> Iterator[Found]:
        """Yield rule, first character and end of each part that a classifier finds."""
        self._judged += judged
        self._starts += starts
        self._ends += ends
        start = 0
        while end := part_end(self._judged, start):
            yield from self._of(start, end)
            start = end
        if start:
            self._judged, self._starts, self._ends = self._judged[start:], self._starts[start:], self._ends[start:]
        if is_last and self._judged:
            yield from self._of(0, len(self._judged))

    def _of(self, start: int, end: int) -> Iterator[Found]:
        text = self._judged[start:end].decode(errors="replace")
        for one in self._classifiers:
            if one.score(text) >= one.threshold:
                yield Found(one.rule, self._starts[start], self._ends[end - 1])
