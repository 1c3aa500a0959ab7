"""What a model is asked about a suspected text, and what its answer says. Pure.

A rule's match is a suspicion if the rule has ``confirm``. An encoder compares the sentence around it with examples of
what is meant; a guard model says one of two words. Trade-off: examples need no training, and find what resembles them
alone; a guard model knows more, and costs a prompt for each sentence.
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
"""Sentences of one prompt or answer that a rule has confirmed; more are as if its model was away."""
TEXT = "{text}"
_END = re.compile(r"[.!?\n]")
_MARKS = re.compile(r"[<\[](?=\S)")
"""What begins a special token of a template."""
_LOGPROBS = 20
"""The most of a token that vLLM tells by default."""


class _Row(msgspec.Struct):
    index: int
    embedding: list[float]


class _Vectors(msgspec.Struct):
    data: list[_Row]


class _Chances(msgspec.Struct):
    top_logprobs: list[dict[str, float]]


class _Choice(msgspec.Struct):
    index: int
    logprobs: _Chances


class _Choices(msgspec.Struct):
    choices: list[_Choice]


_VECTORS, _CHOICES = msgspec.json.Decoder(_Vectors), msgspec.json.Decoder(_Choices)


class Suspect(NamedTuple):
    """A match: its rule's index, its position, and its sentence if a model has to confirm it."""

    rule: int
    position: int
    sentence: str | None = None
    text: str = ""
    """The match itself, if its tenant keeps it."""


def sentence(text: str, start: int, end: int, *, is_whole: bool = True) -> str | None:
    """Return the sentence around a match, without what is farther than ``AROUND`` from it; None if its end has not
    arrived yet.
    """
    first, last = max(0, start - AROUND), end + AROUND
    before = [found.end() for found in _END.finditer(text, first, start)]
    behind = _END.search(text, max(start, end - 1), last)
    if behind is None and not is_whole and len(text) < last:
        return None
    return text[before[-1] if before else first : last if behind is None else behind.end()].strip()


def body(confirm: Confirm, sentences: Sequence[str]) -> dict[str, object]:
    if confirm.like:
        return {"input": [*confirm.like, *sentences], "encoding_format": "float"}
    return {
        "prompt": [confirm.prompt.replace(TEXT, _MARKS.sub(r"\g<0> ", one)) for one in sentences],
        "max_tokens": 1,
        "temperature": 0,
        "logprobs": _LOGPROBS,
        "structured_outputs": {"choice": [confirm.unsafe, confirm.safe]},
    }


def confirmed(confirm: Confirm, sentences: Sequence[str], answer: bytes) -> frozenset[str]:
    """Return the sentences that the model confirms; raises ``ValueError`` for an answer that does not say so."""
    scores = (_likeness if confirm.like else _shares)(confirm, answer, len(sentences))
    return frozenset(one for one, score in zip(sentences, scores, strict=True) if score >= confirm.threshold)


def _likeness(confirm: Confirm, answer: bytes, sentences: int) -> list[float]:
    """Return each sentence's cosine to the example that it is most like."""
    rows = sorted(_VECTORS.decode(answer).data, key=lambda row: row.index)
    vectors = [_unit(row.embedding) for row in rows]
    if len(vectors) != len(confirm.like) + sentences or len(set(map(len, vectors))) != 1:
        raise ValueError("vectors are missing, or of several lengths")
    examples, asked = vectors[: len(confirm.like)], vectors[len(confirm.like) :]
    return [max(sum(map(mul, vector, example)) for example in examples) for vector in asked]


def _unit(vector: Sequence[float]) -> list[float]:
    length = math.sqrt(sum(map(mul, vector, vector)))
    if not length or not math.isfinite(length):
        raise ValueError("a vector has no length")
    return [one / length for one in vector]


def _shares(confirm: Confirm, answer: bytes, sentences: int) -> list[float]:
    """Return the share of the word ``unsafe`` in the chances of both words, by the first token of each answer."""
    choices = sorted(_CHOICES.decode(answer).choices, key=lambda choice: choice.index)
    if [choice.index for choice in choices] != list(range(sentences)):
        raise ValueError("answers are missing")
    return [_share(confirm, choice.logprobs.top_logprobs[:1]) for choice in choices]


def _share(confirm: Confirm, first: Sequence[Mapping[str, float]]) -> float:
    unsafe, safe = (
        sum(math.exp(min(chance, 0.0)) for token, chance in first[0].items() if _begins(word, token)) if first else 0.0
        for word in (confirm.unsafe, confirm.safe)
    )
    if not unsafe + safe:
        raise ValueError("neither word was likely")
    return unsafe / (unsafe + safe)


def _begins(word: str, token: str) -> bool:
    told = token.strip().casefold()
    return bool(told) and word.casefold().startswith(told)


def kept(found: Sequence[Suspect], verdicts: Mapping[int, frozenset[str]]) -> list[Suspect]:
    """Return the matches without those that their rule's model did not confirm."""
    return [one for one in found if one.rule not in verdicts or one.sentence in verdicts[one.rule]]
