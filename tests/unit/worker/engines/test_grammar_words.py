"""What a grammar compiler says of a caller's pattern past everybody is heard by nobody."""

import inspect
import os
import subprocess
import sys
import textwrap
from threading import Thread

import pytest
from xgrammar import Grammar

from penstock.worker.engines.grammar_words import STDERR, Quiet, quietly

SECRET = "S3CRET"
SCHEMA = f'{{"type": "string", "pattern": "^{SECRET}(?!x)$"}}'
"""The compiler leaves out what it can't do, and says so with the whole pattern."""
ENGINE = """
    import logging, os, sys
    from penstock.worker.engines import grammar_words

    grammar_words.install()
    grammar_words.install()
    from xgrammar import Grammar, GrammarCompiler, TokenizerInfo

    Grammar.from_json_schema({schema!r})
    GrammarCompiler(TokenizerInfo(["a", "b"])).compile_json_schema({schema!r})
    logging.getLogger("penstock").error("the engine's own")
    os.write(2, b"a driver's own")
"""


def test_the_compiler_quotes_patterns(capfd: pytest.CaptureFixture[str]) -> None:
    """The planted fault: without care the pattern stands in the log."""
    Grammar.from_json_schema(SCHEMA)
    assert SECRET in capfd.readouterr().err


def test_it_is_not_heard_while_it_works(capfd: pytest.CaptureFixture[str]) -> None:
    """A static function of a class stays one, and its errors are raised as before."""
    quiet = Quiet(STDERR)
    made = quietly(quiet, inspect.getattr_static(Grammar, "from_json_schema"))
    made.__func__(SCHEMA)
    with pytest.raises(RuntimeError, match=SECRET):
        made.__func__(f'{{"type": "{SECRET}"}}')
    os.write(STDERR, b"afterwards")
    assert capfd.readouterr().err == "afterwards"


def test_the_last_one_of_several_lets_others_be_heard(capfd: pytest.CaptureFixture[str]) -> None:
    """Engines compile in several threads at once: one that ends first opens nothing for the others."""
    quiet = Quiet(STDERR)
    with quiet.block():
        other = Thread(target=lambda: quietly(quiet, os.write)(STDERR, b"one"))
        other.start()
        other.join()
        os.write(STDERR, b"two")
        os.write(quiet.kept, b"kept ")
    os.write(STDERR, b"three")
    assert capfd.readouterr().err == "kept three"


def test_an_engines_other_words_stay() -> None:
    """In a process where it is installed, whoever compiles: Python's lines and those of drivers are in the log."""
    program = textwrap.dedent(ENGINE).format(schema=SCHEMA)
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=True)
    assert run.stderr == "the engine's own\na driver's own"
