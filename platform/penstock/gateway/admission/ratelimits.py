"""The ``x-ratelimit-*`` headers, as OpenAI sends them: what the tightest bucket of each measure has left.

Several scopes may bound the same measure; the caller sees the one that will refuse first.
"""

from collections.abc import Iterable
from math import ceil

from penstock.domain.tenancy.limits import Draw, Measure, MeterKind

SECOND_MS, MINUTE_MS = 1000, 60_000
ROUNDING_MS = 1e-6
"""What floating point may add to a whole millisecond."""

_NAMES = {
    measure: tuple(b"x-ratelimit-%b-%b" % (name, measure.encode()) for name in (b"limit", b"remaining", b"reset"))
    for measure in (Measure.REQUESTS, Measure.TOKENS)
}


def headers(draws: Iterable[Draw], remaining: Iterable[int]) -> list[tuple[bytes, bytes]]:
    """Return limit, remaining and reset for requests and tokens; measures without a bound are left out."""
    tightest: dict[Measure, tuple[float, Draw, int]] = {}
    for draw, left in zip(draws, remaining, strict=True):
        if draw.kind is not MeterKind.BUCKET:
            continue
        fullness = left / draw.capacity
        if draw.measure not in tightest or fullness < tightest[draw.measure][0]:
            tightest[draw.measure] = (fullness, draw, left)
    told: list[tuple[bytes, bytes]] = []
    for _, draw, left in tightest.values():
        limit, remaining_name, reset = _NAMES[draw.measure]
        told.append((limit, b"%d" % draw.capacity))
        told.append((remaining_name, b"%d" % max(0, left)))
        told.append((reset, duration((draw.capacity - left) / draw.refill_per_s)))
    return told


def duration(seconds: float) -> bytes:
    """Return seconds the way OpenAI writes them, ``12ms``, ``8.64s``, ``6m0s``, and never too few."""
    ms = max(0, ceil(seconds * 1000 - ROUNDING_MS))
    if ms < SECOND_MS:
        return b"%dms" % ms
    if ms < MINUTE_MS:
        return f"{ms / SECOND_MS:g}s".encode()
    minutes, rest_ms = divmod(ms, MINUTE_MS)
    return b"%dm%ds" % (minutes, ceil(rest_ms / SECOND_MS))
