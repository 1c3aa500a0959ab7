"""Refuses a grammar that would take too long to compile: other requests' grammars wait for it, and nothing stops it.

A grammar of 2 KB with many readings takes xgrammar three hours. So it is compiled for some tokens of each length first,
short ones before long ones, which gives the time for all. A compiling thread gives way to the engine's step. Written
for xgrammar 0.2.
"""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from itertools import pairwise
from time import thread_time
from typing import Any

MOST_S = 2.0
"""CPU seconds of one grammar: a schema of 400 properties takes 0.2."""
LENGTHS = (0, 2, 4, 8, 16, 1 << 20)
"""Bounds of the tokens' lengths in bytes: the time for a token grows with its length's cube."""
SAMPLE = 128
"""Tokens of each length, half of them those with the fewest characters: a grammar may be slow in one character."""
NOISE = 1.25
"""Times the time without tokens, which a sample may take for nothing."""
NICE = 10
MOST_KNOWN = 1024
COMPILES = ("compile_json_schema", "compile_grammar", "compile_lark", "compile_regex", "compile_structural_tag")
_installed: list[str] = []


class TooSlow(ValueError):
    """The grammar takes too long to compile."""


def install() -> None:
    from xgrammar import GrammarCompiler

    if _installed:
        return
    _installed.append("xgrammar")
    make = GrammarCompiler.__init__

    @wraps(make)
    def made(self: Any, tokenizer_info: Any, **named: Any) -> None:  # noqa: ANN401  xgrammar is untyped here
        make(self, tokenizer_info, **named)
        self.estimate = Estimate(tokenizer_info.decoded_vocab) if named.get("cache_enabled", True) else None

    GrammarCompiler.__init__ = made  # type: ignore[method-assign]
    for name in COMPILES:
        setattr(GrammarCompiler, name, bounded(getattr(GrammarCompiler, name)))


def bounded(compiles: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(compiles)
    def compiled(self: Any, *args: Any, **named: Any) -> Any:  # noqa: ANN401
        if self.estimate is not None:
            if threading.current_thread() is not threading.main_thread():
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
            self.estimate.check(repr((args, named)), lambda other: compiles(other, *args, **named))
        return compiles(self, *args, **named)

    return compiled


def samples(vocabulary: Sequence[bytes]) -> Iterator[tuple[list[bytes], int]]:
    for over, most in pairwise(LENGTHS):
        tokens = sorted({token for token in vocabulary if over < len(token) <= most}, key=lambda token: len(set(token)))
        rest = tokens[SAMPLE // 2 :]
        yield [*tokens[: SAMPLE // 2], *rest[:: max(1, len(rest) // (SAMPLE // 2))][: SAMPLE // 2]], len(tokens)


class Estimate:
    def __init__(self, vocabulary: Sequence[bytes]) -> None:
        self._vocabulary = vocabulary
        self._compilers: list[tuple[Any, float]] = []
        """Each for a sample, and the tokens of the vocabulary for each token of it."""
        self._known: dict[int, None] = {}

    def check(self, name: str, compiles: Callable[[Any], object]) -> None:
        """``TooSlow`` beyond ``MOST_S`` for the whole vocabulary."""
        key = hash(name)
        if key in self._known:
            return
        if not self._compilers:
            self._compilers = [(_compiler([]), 0.0)] * 2  # the first warms up
            self._compilers += [(_compiler(some), of / len(some)) for some, of in samples(self._vocabulary) if some]
        least_s = expected_s = 0.0
        for compiler, times in self._compilers:
            began = thread_time()
            compiles(compiler)
            spent_s = thread_time() - began
            if not times:
                least_s = expected_s = spent_s
            expected_s += times * max(0.0, spent_s - NOISE * least_s)
            if expected_s > MOST_S:
                raise TooSlow(f"the grammar takes more than {MOST_S:g} s to compile")
        self._known[key] = None
        if len(self._known) > MOST_KNOWN:
            del self._known[next(iter(self._known))]


def _compiler(tokens: Sequence[bytes]) -> Any:  # noqa: ANN401
    from xgrammar import GrammarCompiler, TokenizerInfo

    known = TokenizerInfo([*tokens, b"</s>"], stop_token_ids=[len(tokens)])
    return GrammarCompiler(known, max_threads=1, cache_enabled=False)
