"""Grammars with a part that no text can complete, in the real compiler's own form."""

import subprocess
import sys

import pytest
from xgrammar import Grammar
from xgrammar.testing import _is_grammar_accept_string

from penstock.worker.engines.dead_ends import DeadEnd, check

DEAD = (
    "root ::= root",
    "root ::= x\nx ::= root",
    "root ::= []",
    r"root ::= [^\u0000-\U0010ffff]",
    'root ::= "a" x\nx ::= x | y\ny ::= x',
    'root ::= "a" | "b" x\nx ::= "c" x',
    'root ::= x{2,3}\nx ::= "c" x',
    r"root ::= [\ud800-\udfff]",
)
ALIVE = (
    ('root ::= "a" "b"', "ab"),
    ('root ::= ""', ""),
    ('root ::= x\nx ::= "a" x | "b"', "aab"),
    ('root ::= "a"\ny ::= y', "a"),
    ('root ::= x? "b"\nx ::= "a"', "b"),
    ('root ::= "a"{2,3} [^a]* ([a-c] | [^\\x00-\\x60]){0,4}', "aa"),
    (r"root ::= [^\u0000-\U0010fffe]", "\U0010ffff"),
)


@pytest.mark.parametrize("grammar", DEAD)
def test_a_part_without_an_end_is_found(grammar: str) -> None:
    """In any rule that the root reaches: the engine can't know which alternative leads nowhere."""
    with pytest.raises(DeadEnd, match="no text completes"):
        check(Grammar.from_ebnf(grammar).serialize_json())


@pytest.mark.parametrize(("grammar", "text"), ALIVE)
def test_grammars_with_an_end_pass(grammar: str, text: str) -> None:
    """Each has a text that the compiler itself accepts; an unused rule is no matter."""
    parsed = Grammar.from_ebnf(grammar)
    assert _is_grammar_accept_string(parsed, text)
    check(parsed.serialize_json())


@pytest.mark.parametrize("pattern", [r"[^\s\S]", r"a[^\d\D]b"])
def test_patterns_without_a_text_are_found(pattern: str) -> None:
    """A class of no characters, alone or in the middle."""
    with pytest.raises(DeadEnd):
        check(Grammar.from_regex(pattern).serialize_json())


def test_the_form_is_that_of_the_installed_compiler() -> None:
    """Another form is an error at the first grammar, and not a judgement."""
    with pytest.raises(RuntimeError, match="v16 is known"):
        check(Grammar.from_ebnf('root ::= "a"').serialize_json().replace('"v16"', '"v17"'))


def test_the_engine_refuses_them_once_installed() -> None:
    """In a process of its own, since it changes the compiler: a good grammar passes, a bad one is an error."""
    program = """
from penstock.worker.engines import dead_ends
dead_ends.install(); dead_ends.install()
from xgrammar import Grammar
Grammar.from_ebnf('root ::= "a"'); Grammar.from_regex("a+"); Grammar.from_json_schema('{"type": "string"}')
for parse, bad in ((Grammar.from_ebnf, "root ::= root"), (Grammar.from_lark, "start: start")):
    try:
        parse(bad)
    except ValueError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.count("no text completes one of its alternatives") == 2
