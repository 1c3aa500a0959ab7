"""Ends a request if its grammar takes too long for each token: the whole batch waits for each request's mask.

The text of an ambiguous grammar (``s ::= s s | "a"``) has more readings with each token, and the compiler follows all:
276 ms after 55 tokens instead of 0.01 ms (xgrammar 0.2, a vocabulary of 49,152). Ambiguity is undecidable, so the time
is bounded, in CPU seconds of this thread. Written for vLLM 0.32.
"""

from collections.abc import Callable
from functools import wraps
from time import thread_time
from typing import Any

STEP_S = 0.005
"""CPU seconds of one request in one step that are free: a step of a small model takes 10 to 20 ms."""
MOST_BEYOND_S = 0.1
"""CPU seconds beyond these, of a whole request: more than the first masks of the largest schemas taken here."""
_installed: list[str] = []


def install() -> None:
    from vllm.v1.structured_output.backend_xgrammar import XgrammarGrammar

    if _installed:
        return
    _installed.append("vllm")
    XgrammarGrammar.fill_bitmask = timed(XgrammarGrammar.fill_bitmask)
    XgrammarGrammar.accept_tokens = bounded(timed(XgrammarGrammar.accept_tokens))


def timed(work: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(work)
    def worked(self: Any, *args: Any, **named: Any) -> Any:  # noqa: ANN401  vLLM is untyped here
        began = thread_time()
        made = work(self, *args, **named)
        if (beyond_s := thread_time() - began - STEP_S) > 0:
            self.beyond_s = getattr(self, "beyond_s", 0.0) + beyond_s
        return made

    return worked


def bounded(accept: Callable[..., Any]) -> Callable[..., Any]:
    """Refused tokens end the request, and no other."""

    @wraps(accept)
    def accepted(self: Any, *args: Any, **named: Any) -> Any:  # noqa: ANN401
        return accept(self, *args, **named) and getattr(self, "beyond_s", 0.0) <= MOST_BEYOND_S

    return accepted
