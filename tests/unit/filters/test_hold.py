"""Text is held while a rule may still match it: every cut of a text gives the whole text's verdict."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.filters import shipped
from penstock.filters.hold import Compiled, Tail
from penstock.filters.pack import Action, Mode, Pack, Rule, Where, strictest
from penstock.filters.whole import spans

PHRASES = ("😀 code", "blue moon", "blue moon rising", "moon", "Übel", "a.b", "o'clock", "Straße 9", "한국", "λόγος")
OWN = Pack(
    id="own",
    version=1,
    rules=(
        Rule(name="phrases", action=Action.BLOCK, category="c", phrases=PHRASES),
        Rule(name="code", action=Action.MASK, category="c", regex=r"\b[A-Z]{2}[0-9]{2,4}\b"),
        Rule(name="no-boundary", action=Action.MASK, category="c", regex="xy{1,3}z?"),
        Rule(name="blanks", action=Action.MASK, category="c", span=12, regex="(?i)key: [a-f]{2,6}"),
    ),
)
COMPILED = Compiled(strictest([OWN, shipped.pack("secrets"), shipped.pack("pii")]), Where.OUTPUT)
ABUSE = replace(shipped.pack("abuse"), mode=Mode.ENFORCE)
CLASSIFIED = Compiled(strictest([OWN, shipped.pack("secrets"), ABUSE]), Where.OUTPUT)
PIECES = [
    *(
        "blue",
        " moon",
        "Blue\nMoon rising",
        "\u200bmo\u200bon",
        "übel",
        "ÜBEL",
        "a.b",
        "o'clock",
        "AB12",
        "AB123456",
        "xyyz",
    ),
    *(
        "xyyyyz",
        "key: abc",
        "KEY: FF",
        "4111 1111 1111 1111",
        "12 4111-1111-1111-1111 3",
        "DE89 3704 0044 0532 0130 00",
    ),
    *("GB82WEST12345698765432", "jane@example.co.uk", "AKIAIOSFODNN7EXAMPLE", "-----BEGIN RSA PRIVATE KEY-----"),
    *(
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0",
        "+49 30 901820-0",
        "123-45-6789",
        "ﬁ",
        "\uff21\uff22\uff11\uff12",
        "\ud83d",
        "😀",
        "İ",
        "ß",
    ),
    *("\\", "\\n", "\\u0041", "\\u004BIAIOSFODNN7EXAMPLE", "jane\\u0040example.com", "\\ud83d\\ude00", "\\u00dcbel"),
    *("blue \n", "  moon", "\u034f", "\x00", "123\u201145\u20116789", "_AKIAIOSFODNN7EXAMPLE_"),
    *(
        "STRASSE\u2028 9",
        "U\u0308BEL",
        "\u1112\u1161\u11ab\u1100\u116e\u11a8",
        "ΛΌΓΟΣ",
        "AKIA\u180bIOSFODNN7EXAMPLE",
        "blue\v",
    ),
    *(" ", ".", ",", "a", "1", "-", "\n", "e\u0301", "\ufeff"),
    *(
        "you stupid idiot",
        "Shut up, moron! ",
        "id\\u0069ot. ",
        "…",
        "x" * 50,
        "ü" * 30,
        'so." ',
        "all day long and all the night ",
    ),
]
TEXTS = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=3)), max_size=9).map("".join)
CUTS = st.lists(st.integers(1, 9), min_size=1, max_size=12)


def covered(found: Sequence[tuple[int, int, int]]) -> set[tuple[int, int]]:
    """Return each rule with each character that it matches."""
    return {(rule, at) for rule, start, end in found for at in range(start, end)}


def pieces(text: str, cuts: Sequence[int]) -> list[str]:
    """Cut a text into pieces of these sizes, again and again."""
    found, at, count = list[str](), 0, 0
    while at < len(text):
        found.append(text[at : at + cuts[count % len(cuts)]])
        at, count = at + cuts[count % len(cuts)], count + 1
    return found


@pytest.mark.parametrize("compiled", [COMPILED, CLASSIFIED], ids=["rules", "classifier"])
@settings(max_examples=400, deadline=None)
@given(text=TEXTS, cuts=CUTS)
def test_every_cut_gives_the_verdict_of_the_whole_text(compiled: Compiled, text: str, cuts: Sequence[int]) -> None:
    """For every cut the same characters match, as written and unescaped, and none has left before it was found."""
    tail, found = Tail(compiled), set[tuple[int, int]]()
    tails, parts = (tail, tail.unescaped()), pieces(text, cuts)
    for at, part in enumerate(parts):
        left = min(one.safe for one in tails)
        now = covered([hit for one in tails for hit in one.feed(part, is_last=at == len(parts) - 1)])
        assert not {at for _, at in now - found if at < left}
        found |= now
    assert found == covered(spans(compiled.judge, text))
    assert all(one.safe == one.total == len(text) for one in tails) or not parts


def lags(text: str, size: int = 4) -> list[int]:
    """Return for each piece the pieces that came before it left."""
    tail, waits, ends = Tail(COMPILED), list[int](), list[int]()
    for part in pieces(text, [size]):
        tail.feed(part)
        ends.append(tail.total)
        while len(waits) < len(ends) and ends[len(waits)] <= tail.safe:
            waits.append(len(ends) - 1 - len(waits))
    return waits


def test_prose_leaves_a_word_later() -> None:
    """In prose only the word in progress is held: less than two pieces of four characters on average."""
    waits = lags("the quick brown fox jumps over the lazy dog, and then it sleeps under a tree for an hour. " * 20)
    assert sum(waits) / len(waits) < 2


@pytest.mark.parametrize("run", ["a" * 5_000, "1" * 5_000, "é" * 5_000, "key: " * 1_000])
def test_a_long_run_is_held_for_no_more_than_a_match(run: str) -> None:
    """Text without an end of a word is held for the longest match's characters alone."""
    tail = Tail(COMPILED)
    for part in pieces(run, [7]):
        tail.feed(part)
        assert tail.total - tail.safe <= 300
