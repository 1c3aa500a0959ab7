"""The time to compile a grammar is foreseen, with the real compiler."""

import random

import pytest
import xgrammar

from penstock.worker.engines import compile_time
from penstock.worker.engines.compile_time import Estimate, TooSlow

LETTERS = "abcdefghijklmnopqrstuvwxyz "
RULES = 12
MANY_READINGS = "root ::= s0\n" + "\n".join(
    f"s{i} ::= s{i} s{i} | s{(i + 1) % RULES} s{i} | s{(i + 7) % RULES} | [LETTERS]" for i in range(RULES)
)
PLAIN = ("root ::= [a-z ]+", 'root ::= s\ns ::= "a" s | "b"', "root ::= " + " | ".join(f'"{i} a"' for i in range(400)))


@pytest.fixture(scope="module")
def estimate() -> Estimate:
    """Return the estimate for a vocabulary of words and of runs of single characters."""
    chance = random.Random(1)
    words = {"".join(chance.choices(LETTERS, k=chance.randint(1, 12))) for _ in range(40_000)}
    runs = {character * length for character in "=- " for length in range(1, 40)}
    return Estimate([one.encode() for one in sorted(words | runs)])


@pytest.mark.parametrize("characters", ["a-z ", "="])
def test_a_grammar_with_many_readings_is_refused_before_it_is_compiled(estimate: Estimate, characters: str) -> None:
    """Also if they are of one character, which few tokens have."""
    text = MANY_READINGS.replace("LETTERS", characters)
    with pytest.raises(TooSlow):
        estimate.check(text, lambda compiler: compiler.compile_grammar(text))


@pytest.mark.parametrize("text", PLAIN)
def test_other_grammars_pass_and_are_tried_once(estimate: Estimate, text: str) -> None:
    """The next request with it does not pay again."""
    tried = list[str]()

    def compiles(compiler: xgrammar.GrammarCompiler) -> None:
        tried.append(text)
        compiler.compile_grammar(text)

    estimate.check(text, compiles)
    before = len(tried)
    estimate.check(text, compiles)
    assert len(tried) == before > 0


def test_every_way_to_compile_is_bounded() -> None:
    """What vLLM's backend calls is the compiler's own list of methods."""
    found = {name for name in dir(xgrammar.GrammarCompiler) if name.startswith("compile_")}
    assert found - {"compile_builtin_json_grammar"} == set(compile_time.COMPILES)
