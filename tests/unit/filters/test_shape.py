"""What is matched is what was read: no engine reads a regex's own spelling."""

import re
import warnings
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from penstock.filters import shape
from penstock.filters.hold import Compiled, Tail
from penstock.filters.pack import Action, Pack, Rule, Where, strictest
from penstock.filters.whole import spans
from tests.unit.filters.test_hold import covered, pieces

_ONE = st.one_of(
    st.sampled_from("aAbB1-_ "),
    st.sampled_from([r"\d", r"\s", r"\b", r"\-", r"\x41", r"\061", "[]a]", "[a-b-]", r"[\w.]"]),
)
_BOUND = st.sampled_from(["", "?", "{2}", "{,2}", "{0,3}", "{1,2}?"])
ALLOWED = st.recursive(
    st.builds("{}{}".format, _ONE, _BOUND),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=4).map("".join),
        st.builds("(?:{}|{}){}".format, inner, inner, _BOUND),
        st.builds("(?P<n>{}){}".format, inner, _BOUND),
    ),
    max_leaves=8,
)
ANY = st.text("ab1A-_[]^:&|~{},?*+()\\\\dwsbBZz", max_size=12)
REGEXES = st.builds(
    "{}{}".format, st.sampled_from(["", "(?i)"]), st.one_of(ALLOWED, ANY, st.sampled_from(["a{b", "a{,3}b"]))
)
TEXTS = st.text("aAbB1-_ ,.{}[]:|é", max_size=14)


def _read(regex: str) -> shape.Shape | None:
    try:
        found = shape.of(regex)
    except ValueError:
        return None
    return found if found.least and found.most <= 60 else None


@example(regex="ab{,2}c", text="ab{,2}c abbc", cuts=[1])
@example(regex=r"\s1\b", text="\v1é", cuts=[1])
@settings(max_examples=150, deadline=None)
@given(regex=REGEXES, text=TEXTS, cuts=st.lists(st.integers(1, 3), min_size=1, max_size=5))
def test_a_regex_matches_what_was_read_of_it_also_in_pieces(regex: str, text: str, cuts: Sequence[int]) -> None:
    """Whatever is taken finds what Python's reading finds, and nothing of it leaves before it is found."""
    read = _read(regex)
    assume(read is not None)
    rule = Rule(name="r", action=Action.BLOCK, category="c", regex=regex, span=60)
    compiled = Compiled(strictest([Pack(id="p", version=1, rules=(rule,))]), Where.OUTPUT)
    meant = covered(list(_meant(regex, text)))
    assert covered(spans(compiled.judge, text)) == meant
    tail, found, parts = Tail(compiled), set[tuple[int, int]](), pieces(text, cuts)
    for at, part in enumerate(parts):
        left = tail.safe
        now = covered(tail.feed(part, is_last=at == len(parts) - 1))
        assert not {place for _, place in now - found if place < left}
        found |= now
    assert found == meant


def _meant(regex: str, text: str) -> Iterator[tuple[int, int, int]]:
    """Yield each match that Python finds, of every length."""
    flags = re.ASCII | re.IGNORECASE if regex.startswith("(?i)") else re.ASCII
    for behind in range(len(text)):
        own = re.compile(rf"(?:{regex.removeprefix('(?i)')})(?=(?s:.{{{behind}}})\Z)", flags)
        end = len(text) - behind
        yield from ((0, at, end) for at in range(end) if own.match(text, at))


@pytest.mark.parametrize(
    "regex",
    [
        *("[[:upper:]]{4}", "[[:^alpha:]]{3}", "[a[:digit:]]", "[[.a.]]", "[a-z&&[b]]", "[a--b]", "[a||b]", "[a~~b]"),
        *(
            r"\pN",
            r"\p{Lu}",
            r"\Qa\E",
            r"\h",
            r"a\z",
            r"a\Z",
            r"\x{41}",
            "^a",
            "a$",
            r"\Ba",
            r"a\R",
            r"\C",
            r"\Ka",
            r"\cA",
        ),
        *("a{1,3}+", "(?>ab)", "a(?i)b", "(?s)a", "(?m)a", "(?x)a b", "(?i:a)", "(?<n>a)", "a**", "a{2}{3}", "[^]a]"),
        *("(?U)a", r"(a)(?(1)b|c)", "(?!a)b", "(a|b" * 325 + ")" * 325),
    ],
)
def test_what_engines_read_otherwise_is_refused(regex: str) -> None:
    """Classes of names, sets, other anchors, flags and groups are refused in words, and nothing is warned of."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=r"has a|may have|is no regular"):
            shape.of(regex)
