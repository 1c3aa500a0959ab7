"""A grammar's time in each step is bounded, with the real compiler and a matcher as an engine has it."""

from functools import partial
from typing import Any

import pytest
import xgrammar

from penstock.worker.engines import mask_time
from penstock.worker.engines.mask_time import MOST_BEYOND_S, STEP_S, bounded, timed

VOCABULARY = [*map(chr, range(32, 127)), *(a + b + c for a in "abcdefgh" for b in "abcdefghij" for c in "abcdefghij")]
END = len(VOCABULARY)
AMBIGUOUS = "root ::= s\ns ::= s s | s s s | s s s s | [a-z] | [a-y]"
PLAIN = ("root ::= [a-z]+", 'root ::= s\ns ::= "a" s | "b" s | "a"', 'root ::= s\ns ::= s "a" | "a"')


class Grammar:
    """As vLLM's: it fills a row of the mask and accepts tokens."""

    def __init__(self, text: str) -> None:
        known = xgrammar.TokenizerInfo([*VOCABULARY, "</s>"], stop_token_ids=[END])
        compiled = xgrammar.GrammarCompiler(known, max_threads=1).compile_grammar(text)
        self.matcher, self.rows = xgrammar.GrammarMatcher(compiled), xgrammar.allocate_token_bitmask(1, END + 1)
        self.beyond_s = 0.0

    def fill(self) -> None:
        self.matcher.fill_next_token_bitmask(self.rows)

    def accept(self, token: int) -> bool:
        return bool(self.matcher.accept_token(token))


def steps(text: str, most: int) -> int:
    """Return the number of tokens until the request is ended."""
    grammar: Any = Grammar(text)
    fill, accept = timed(Grammar.fill), bounded(timed(Grammar.accept))
    for step in range(most):
        fill(grammar)
        if not accept(grammar, VOCABULARY.index("a")):
            return step
    return most


def test_an_ambiguous_grammar_is_ended_before_its_steps_are_long() -> None:
    """Its masks' time grows with each token, without a bound."""
    assert steps(AMBIGUOUS, 2_000) < 500


@pytest.mark.parametrize("text", PLAIN)
def test_an_unambiguous_grammar_goes_on(text: str) -> None:
    """Recursive on the left or on the right, over a whole context."""
    assert steps(text, 2_000) == 2_000


def test_single_slow_steps_are_forgiven(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sum beyond what is free counts, not one step."""
    seconds = iter([0.0, STEP_S + 0.9 * MOST_BEYOND_S, 1.0, 1.0 + STEP_S, 2.0, 2.0 + STEP_S + 0.2 * MOST_BEYOND_S])
    monkeypatch.setattr(mask_time, "thread_time", partial(next, seconds))

    class Worked:
        def work(self) -> bool:
            return True

    accept = bounded(timed(Worked.work))
    one = Worked()
    assert [accept(one) for _ in range(3)] == [True, True, False]
