"""Engines that seem stalled: their streams got no token for much longer than usual. Pure.

Such a worker is only skipped for new requests while others serve (``Breakers.suspect``), until its next token or for
``most_s``.

Trade-off: comparing delivered tokens twice a second costs nothing per token, but finds no engine that stalls before its
first token. A worker with one stream and a stalled reader looks the same.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.domain.ids import WorkerId


class StreamProgress(NamedTuple):
    """One stream's progress: its number, and the tokens ``delivered``."""

    worker: WorkerId
    stream: int
    delivered: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StallSettings:
    """A silence is suspicious if longer than ``least_s`` and ``times_usual`` the usual time between tokens."""

    least_s: float = 1.5
    times_usual: float = 6.0
    most_s: float = 10.0
    smoothing: float = 0.2


@dataclass(slots=True)
class _Pulse:
    moved_at: float
    usual_s: float = 0.0
    delivered: dict[int, int] = field(default_factory=dict)


class Stalls:
    def __init__(self, settings: StallSettings | None = None) -> None:
        self._settings = settings or StallSettings()
        self._pulses: dict[WorkerId, _Pulse] = {}

    def look(self, streams: Iterable[StreamProgress], now: float) -> frozenset[WorkerId]:
        """Return the suspicious workers at monotonic second ``now``; ``streams`` are all running streams."""
        found: dict[WorkerId, dict[int, int]] = {}
        for one in streams:
            if one.delivered:
                found.setdefault(one.worker, {})[one.stream] = one.delivered
        self._pulses = {worker: self._felt(worker, delivered, now) for worker, delivered in found.items()}
        return frozenset(worker for worker, pulse in self._pulses.items() if self._is_suspicious(pulse, now))

    def _felt(self, worker: WorkerId, delivered: dict[int, int], now: float) -> _Pulse:
        pulse = self._pulses.get(worker)
        if pulse is None:
            return _Pulse(now, 0.0, delivered)
        if any(pulse.delivered.get(stream) != tokens for stream, tokens in delivered.items()):
            gap_s = now - pulse.moved_at
            pulse.usual_s += self._settings.smoothing * (gap_s - pulse.usual_s) if pulse.usual_s else gap_s
            pulse.moved_at = now
        pulse.delivered = delivered
        return pulse

    def _is_suspicious(self, pulse: _Pulse, now: float) -> bool:
        silent_s = now - pulse.moved_at
        ours = self._settings
        return max(ours.least_s, ours.times_usual * pulse.usual_s) < silent_s < ours.most_s
