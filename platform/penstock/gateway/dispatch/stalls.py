"""Engines that seem stalled: their streams got no token for much longer than usual. Pure.

Such a worker is only skipped for new requests while others serve (``Breakers.suspect``), until its next token or for
``MOST_S``.

Trade-off: comparing delivered tokens twice a second costs nothing per token, but finds no engine that stalls before its
first token.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.domain.ids import WorkerId

LEAST_S, TIMES_USUAL, MOST_S = 1.5, 6.0, 10.0
"""A silence is suspicious if longer than ``LEAST_S`` and ``TIMES_USUAL`` the usual time between tokens."""
SMOOTHING = 0.2


class StreamProgress(NamedTuple):
    worker: WorkerId
    stream: int
    delivered: int


@dataclass(slots=True)
class _Pulse:
    moved_at: float
    usual_s: float = 0.0
    delivered: dict[int, int] = field(default_factory=dict)


class Stalls:
    def __init__(self) -> None:
        self._pulses: dict[WorkerId, _Pulse] = {}

    def look(self, streams: Iterable[StreamProgress], now: float) -> frozenset[WorkerId]:
        found: dict[WorkerId, dict[int, int]] = {}
        for one in streams:
            if one.delivered:
                found.setdefault(one.worker, {})[one.stream] = one.delivered
        self._pulses = {worker: self._felt(worker, delivered, now) for worker, delivered in found.items()}
        return frozenset(worker for worker, pulse in self._pulses.items() if _is_suspicious(pulse, now))

    def _felt(self, worker: WorkerId, delivered: dict[int, int], now: float) -> _Pulse:
        pulse = self._pulses.get(worker)
        if pulse is None:
            return _Pulse(now, 0.0, delivered)
        if any(pulse.delivered.get(stream) != tokens for stream, tokens in delivered.items()):
            gap_s = now - pulse.moved_at
            pulse.usual_s += SMOOTHING * (gap_s - pulse.usual_s) if pulse.usual_s else gap_s
            pulse.moved_at = now
        pulse.delivered = delivered
        return pulse


def _is_suspicious(pulse: _Pulse, now: float) -> bool:
    silent_s = now - pulse.moved_at
    return max(LEAST_S, TIMES_USUAL * pulse.usual_s) < silent_s < MOST_S
