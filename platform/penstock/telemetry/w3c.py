"""W3C trace context as a string: trace, span, sampled flag. Pure; chance is an argument."""

import random

_SAMPLED, _UNSAMPLED = "01", "00"
TRACE, SPAN = slice(3, 35), slice(36, 52)
"""Positions of both ids in a ``traceparent``."""


def own_span(given: str, ratio: float, chance: random.Random) -> str:
    """Return the request's own span, in the caller's trace or a new one."""
    span = chance.getrandbits(64) or 1
    if given:
        return f"00-{given[TRACE]}-{span:016x}-{_SAMPLED if is_sampled(given) else _UNSAMPLED}"
    flags = _SAMPLED if chance.random() < ratio else _UNSAMPLED
    return f"00-{chance.getrandbits(128) or 1:032x}-{span:016x}-{flags}"


def is_sampled(context: str) -> bool:
    return bool(context) and bool(int(context[-2:], 16) & 1)


def trace_of(context: str) -> str:
    """Return the trace's id; empty if it is not sampled, since no backend has it."""
    return context[TRACE] if is_sampled(context) else ""
