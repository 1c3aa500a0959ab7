"""A classifier's rules: its scores are the original's, and it judges sentences of bounded length."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest
from tokenizers import Tokenizer

from penstock.filters import shipped
from penstock.filters.hold import Compiled, Tail
from penstock.filters.pack import Mode, Pack, Where, strictest
from penstock.filters.sentences import JUDGES, MOST_BYTES, part_end
from tests.support import tree
from tests.support.models import tokenizers

RECORDED = Path(__file__).with_name("toxicity.tsv")
"""Scores of alt-profanity-check 1.9.1 on scikit-learn 1.9.1, written by `python -m scripts.toxicity`, 2026-11-28."""
ENFORCED = replace(shipped.pack("abuse"), mode=Mode.ENFORCE)
FIRST = 12
"""Tokens until the first may leave."""


def parts(text: str) -> list[str]:
    judged, found, start = text.encode(), list[str](), 0
    while end := part_end(judged, start):
        found.append(judged[start:end].decode())
        start = end
    return found


def test_scores_are_the_originals() -> None:
    """Each recorded text has the score that the original gives it."""
    score = JUDGES["toxicity"]()
    recorded = [line.partition("\t") for line in RECORDED.read_text(encoding="utf-8").split("\n")[:-1]]
    assert len(recorded) > 40
    assert {text: score(text) for _, _, text in recorded} == {
        text: pytest.approx(float(wanted), abs=1e-6) for wanted, _, text in recorded
    }


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Yes. No! ", ["Yes. ", "No! "]),
        ('He said "no." She', ['He said "no." ']),
        ("version 3.14 of it", []),
        ("a\nb\n", ["a\n", "b\n"]),
        ("word " * 10, ["word " * 7 + "word"]),
        ("a = b\n    c = d(e, f)", ["a = b\n", "    c = d(e, f"]),
        ("it is not a SUCCEEDED one", ["it is not a "]),
        ("x" * 50, ["x" * 40]),
        ("aü" * 7, ["aü" * 4]),
        ("é" + "aü" * 7, ["é" + "aü" * 3 + "a"]),
    ],
)
def test_a_part_ends_with_its_sentence_or_at_its_bound(text: str, wanted: list[str]) -> None:
    """A sentence is a part; a longer one ends behind a word, and inside a character never."""
    assert parts(text) == wanted
    assert all(len(one.encode()) <= MOST_BYTES for one in wanted)


@pytest.mark.parametrize("place", ["docs/how-it-decides/waiting.md", "platform/penstock/gateway/pipeline.py"])
def test_the_first_token_leaves_within_twelve(place: str) -> None:
    """The demo model's first token is judged within twelve more, whatever line of prose or code it begins."""
    blob = tokenizers.demo("<|im_start|>")
    if blob is None:
        pytest.skip("SmolLM2 is not prepared here (make models)")
    lines = [line for line in (tree.ROOT / place).read_text().splitlines(keepends=True) if line.strip()]
    texts = ["".join(lines[at : at + 4]) for at in range(len(lines))]
    tokens = [
        [text[start:end] for start, end in one.offsets]
        for text, one in zip(texts, Tokenizer.from_buffer(blob).encode_batch(texts), strict=True)
    ]
    waits = [first_wait(pieces) for pieces in tokens if len(pieces) > FIRST]
    assert len(waits) > 60
    assert (median(waits) <= FIRST - 4, max(waits) <= FIRST, min(waits) >= 0) == (True, True, True)


def first_wait(pieces: Sequence[str], pack: Pack = ENFORCED) -> int:
    """Return the pieces after the first until it may leave."""
    tail = Tail(Compiled(strictest([pack]), Where.OUTPUT))
    for at, piece in enumerate(pieces):
        tail.feed(piece)
        if tail.safe >= len(pieces[0]):
            return at
    return len(pieces)


def test_a_pack_that_observes_holds_nothing() -> None:
    """What will not act keeps no token waiting, and finds the same."""
    assert first_wait(["You ", "stupid ", "idiot. "], shipped.pack("abuse")) == 0
    tail = Tail(Compiled(strictest([shipped.pack("abuse")]), Where.OUTPUT))
    assert [found for piece in ("You stupid ", "idiot. ") for found in tail.feed(piece)] == [(0, 0, 18)]
