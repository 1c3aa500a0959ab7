"""What a grammar compiler writes past Python's logging is no line of an engine's log: it quotes what a caller asks for.

xgrammar is C++ and warns by writing into file descriptor 2, patterns and names of rules in full. So while it works that
descriptor leads nowhere, and what Python says goes to the log by another one. Trade-off: other native code of the
process is not heard in these moments, a few milliseconds of each new grammar.
Written for xgrammar 0.2; an engine that has no such places does not start.
"""

import inspect
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

STDERR = 2
_GRAMMARS = ("from_ebnf", "from_json_schema", "from_regex", "from_lark", "from_structural_tag")
_COMPILED = ("compile_json_schema", "compile_regex", "compile_lark", "compile_structural_tag", "compile_grammar")
_installed: list[str] = []


class Quiet:
    """Leads a descriptor nowhere for as long as one block at least runs, in whichever threads."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._lock, self._inside = descriptor, threading.Lock(), 0
        self.kept = os.dup(descriptor)
        self._nowhere = os.open(os.devnull, os.O_WRONLY)

    @contextmanager
    def block(self) -> Iterator[None]:
        """Let nobody hear what is written to it."""
        self._enter(1)
        try:
            yield
        finally:
            self._enter(-1)

    def _enter(self, change: int) -> None:
        with self._lock:
            before, self._inside = self._inside, self._inside + change
            if not before:
                os.dup2(self._nowhere, self._descriptor)
            elif not self._inside:
                os.dup2(self.kept, self._descriptor)


def install() -> None:
    """Keep compilers quiet from now on, in the process that asks them."""
    if _installed:
        return
    from xgrammar import Grammar, GrammarCompiler

    _installed.append("xgrammar")
    quiet = Quiet(STDERR)
    sys.stderr = os.fdopen(os.dup(quiet.kept), "w", buffering=1, errors="backslashreplace")
    for owner, names in ((Grammar, _GRAMMARS), (GrammarCompiler, _COMPILED)):
        for name in names:
            setattr(owner, name, quietly(quiet, inspect.getattr_static(owner, name)))


def quietly(quiet: Quiet, compiler: Any) -> Any:  # noqa: ANN401  a method, or a static one
    """Return the same function of a class, during which nothing is heard."""
    if isinstance(compiler, staticmethod):
        return staticmethod(_quietly(quiet, compiler.__func__))
    return _quietly(quiet, compiler)


def _quietly(quiet: Quiet, compiler: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(compiler)
    def compiled(*args: Any, **named: Any) -> Any:  # noqa: ANN401
        with quiet.block():
            return compiler(*args, **named)

    return compiled
