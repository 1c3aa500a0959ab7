"""The rate-limit headers of Anthropic's API, derived from OpenAI's: ``anthropic-ratelimit-{requests,tokens}-*``. Pure.

Limits and remainders are the same numbers; a reset is a time (RFC 3339, UTC, whole seconds) instead of a duration.
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from math import ceil

Headers = Iterable[tuple[bytes, bytes]]
_OPENAIS = re.compile(rb"x-ratelimit-(limit|remaining|reset)-(requests|tokens)")
_DURATION = re.compile(rb"(?:(\d+)m(?!s))?(?:([\d.]+)(ms|s))?")


def anthropics(told: Headers, now: float) -> list[tuple[bytes, bytes]]:
    made = []
    for name, value in told:
        if found := _OPENAIS.fullmatch(name):
            kind, measure = found[1], found[2]
            moment = _moment(value, now) if kind == b"reset" else value
            made.append((b"anthropic-ratelimit-%b-%b" % (measure, kind), moment))
    return made


def _moment(duration: bytes, now: float) -> bytes:
    found = _DURATION.fullmatch(duration)
    minutes, amount, unit = found.groups() if found is not None else (None, None, None)
    seconds = 60 * int(minutes or 0) + float(amount or 0) / (1000 if unit == b"ms" else 1)
    return f"{datetime.fromtimestamp(ceil(now + seconds), UTC):%Y-%m-%dT%H:%M:%SZ}".encode()
