"""Keeps a grammar compiler's own output out of an engine's log: it quotes callers' schemas.

xgrammar (C++) writes warnings with patterns and rule names to file descriptor 2. While it compiles, the descriptor
leads to /dev/null and Python's log uses another one. Trade-off: other native output is lost in the milliseconds of each
new grammar's compilation. Written for xgrammar 0.2.
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
    """Drops a file descriptor's output while any thread is inside ``block``."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._lock, self._inside = descriptor, threading.Lock(), 0
        self.kept = os.dup(descriptor)
        self._nowhere = os.open(os.devnull, os.O_WRONLY)

    @contextmanager
    def block(self) -> Iterator[None]:
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
    if isinstance(compiler, staticmethod):
        return staticmethod(_quietly(quiet, compiler.__func__))
    return _quietly(quiet, compiler)


def _quietly(quiet: Quiet, compiler: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(compiler)
    def compiled(*args: Any, **named: Any) -> Any:  # noqa: ANN401
        with quiet.block():
            return compiler(*args, **named)

    return compiled
