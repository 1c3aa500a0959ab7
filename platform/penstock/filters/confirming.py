"""What a model is asked about a suspected text, and what its vectors say. Pure.

A rule's match is a suspicion if the rule has ``confirm``: the sentence around it is compared with examples of what is
meant. Trade-off: examples need no training, and find what resembles them alone.
"""

import math
import re
from collections.abc import Mapping, Sequence
from operator import mul
from typing import NamedTuple

import msgspec

from penstock.filters.pack import Confirm

AROUND = 128
"""Characters of a sentence before and behind a match: models of sentences read 256 tokens, and short texts well."""
MOST_ASKED = 16
"""Sentences of one prompt that a rule has confirmed; more are as if its model was away."""
_END = re.compile(r"[.!?\n]")


class _Row(msgspec.Struct):
    index: int
    embedding: list[float]


class _Vectors(msgspec.Struct):
    data: list[_Row]


_VECTORS = msgspec.json.Decoder(_Vectors)


class Suspect(NamedTuple):
    """A match: its rule's index, its position, and its sentence if a model has to confirm it."""

    rule: int
    position: int
    sentence: str = ""


def sentence(text: str, start: int, end: int) -> str:
    """Return the sentence around a match, without what is farther than ``AROUND`` from it."""
    first, last = max(0, start - AROUND), min(len(text), end + AROUND)
    before = [found.end() for found in _END.finditer(text, first, start)]
    behind = _END.search(text, max(start, end - 1), last)
    return text[before[-1] if before else first : last if behind is None else behind.end()].strip()


def body(confirm: Confirm, sentences: Sequence[str]) -> dict[str, object]:
    return {"input": [*confirm.like, *sentences], "encoding_format": "float"}


def confirmed(confirm: Confirm, sentences: Sequence[str], answer: bytes) -> frozenset[str]:
    """Return the sentences that are as like one of the examples as the rule says; raises ``ValueError``."""
    rows = sorted(_VECTORS.decode(answer).data, key=lambda row: row.index)
    vectors = [_unit(row.embedding) for row in rows]
    if len(vectors) != len(confirm.like) + len(sentences) or len(set(map(len, vectors))) != 1:
        raise ValueError("vectors are missing, or of several lengths")
    examples, asked = vectors[: len(confirm.like)], vectors[len(confirm.like) :]
    likeness = {
        text: max(sum(map(mul, vector, example)) for example in examples)
        for text, vector in zip(sentences, asked, strict=True)
    }
    return frozenset(text for text, most in likeness.items() if most >= confirm.threshold)


def _unit(vector: Sequence[float]) -> list[float]:
    length = math.sqrt(sum(map(mul, vector, vector)))
    if not length or not math.isfinite(length):
        raise ValueError("a vector has no length")
    return [one / length for one in vector]


def kept(found: Sequence[Suspect], verdicts: Mapping[int, frozenset[str]]) -> list[Suspect]:
    """Return the matches without those that their rule's model did not confirm."""
    return [one for one in found if one.rule not in verdicts or one.sentence in verdicts[one.rule]]
