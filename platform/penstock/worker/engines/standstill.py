"""Selects the batch sequences that stand still in an engine's next step, since interactive requests are about. Pure.

Only requests of tenants with the plan's ``batch_yield: strict`` stand still. They keep their slots and KV blocks. A
request is stopped ``MOST_STOPS`` times at most, and only in the first part of its time.

Trade-off: the engine's capacity is unused for as long as interactive requests come within ``ABOUT_S`` of each other.
"""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from penstock.worker.meter import Stops

MOST_STOPS = 4
"""Stops of one request: without a bound, bursts of others would take its whole time."""
STOP_PART = 0.5
"""Part of a request's time until its deadline in which it may be stopped: the rest is enough to run at a usual load."""
ABOUT_S = 4.0
"""Seconds after the last interactive sequence in which another one is expected: a reader's usual pause."""
STOPS: Final = "penstock_stops"
"""The key of a request's ``Stops`` among vLLM's extra arguments."""


def stops_until(deadline_at: float, now: float) -> float:
    return now + STOP_PART * max(0.0, deadline_at - now)


@dataclass(slots=True)
class Standstill:
    _awaited_at: float = -math.inf
    _still: frozenset[str] = frozenset()
    _stops: Counter[str] = field(default_factory=Counter)

    def next(self, inside: Iterable[tuple[str, Stops]], now: float) -> frozenset[str]:
        here = dict(inside)
        if any(one.is_awaited for one in here.values()):
            self._awaited_at = now
        if now - self._awaited_at >= ABOUT_S:
            self._still = frozenset()
            self._stops = Counter({name: times for name, times in self._stops.items() if name in here})
            return self._still
        able = (name for name, one in here.items() if now < one.until)
        still = frozenset(name for name in able if name in self._still or self._stops[name] < MOST_STOPS)
        self._stops.update(still - self._still)
        self._still = still
        return still
