"""What is judged is what a reader sees: no invisible character, letters of any case and form, any white space."""

import importlib
import sys
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.filters.judge import Judge
from penstock.filters.normal import normal
from penstock.filters.pack import Action, Rule
from penstock.filters.whole import spans

_regex: Any = importlib.import_module("regex")
_EVERY = "".join(map(chr, range(sys.maxunicode + 1)))
_WHITE = _regex.findall(r"\p{White_Space}", _EVERY)
WORDS = ("naïve", "operación", "straße", "istanbul", "한국", "λόγος", "übel", "ﬁx", "ǰá", "việt", "ᾳ", "plain")


def test_no_invisible_character_is_judged() -> None:
    """All that Unicode lets a reader's screen ignore, and all controls but white space, leave nothing."""
    unseen = set(_regex.findall(r"[\p{Default_Ignorable_Code_Point}\p{Cc}]", _EVERY)) - set(_WHITE)
    unseen.update(one for one in _EVERY if unicodedata.category(one) in ("Cf", "Cs"))
    assert [hex(ord(one)) for one in unseen if normal(one)[0]] == []
    assert [hex(ord(one)) for one in _EVERY if not normal(one)[0] and one not in unseen] == []


@pytest.mark.parametrize("blank", _WHITE, ids=ascii)
def test_a_blank_is_any_white_space(blank: str) -> None:
    """Each white space of Unicode, also several, is a phrase's blank."""
    assert _matches("blue moon", f"a blue{blank * 2}moon")


@given(
    words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join),
    case=st.sampled_from([str.upper, str.lower, str.casefold, str.title, str.swapcase]),
    form=st.sampled_from(["NFC", "NFD", "NFKC", "NFKD"]),
)
def test_a_phrase_is_found_in_any_case_and_form(words: str, case: Any, form: Any) -> None:  # noqa: ANN401
    """Upper, lower and folded, composed and decomposed, a phrase is the same."""
    phrase = unicodedata.normalize("NFKC", words)
    assert _matches(phrase, f"({unicodedata.normalize(form, case(words))})")


def test_another_letter_is_another_phrase() -> None:
    """An accent that the phrase lacks, or has, makes another word."""
    assert not _matches("übel", "(ubel)")
    assert not _matches("ubel", "(übel)")


def _matches(phrase: str, text: str) -> bool:
    judge = Judge([Rule(name="r", action=Action.BLOCK, category="c", phrases=(phrase,))])
    return bool(spans(judge, text))
