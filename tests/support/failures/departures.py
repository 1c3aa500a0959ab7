"""Clients that leave together, and how soon each one's place in the engine and its lease are free again."""

import re
import time
from dataclasses import dataclass, field

import httpx

from penstock.telemetry.names import IN_FLIGHT
from tests.support.clients.sockets import Wire
from tests.support.patience import patient
from tests.support.platforms.readings import Fleet, Gate

FREE_WITHIN_S = 1.0
"""On a quiet machine."""
_IN_FLIGHT = re.compile(rf"^{IN_FLIGHT.name}{{[^}}]*}} (\S+)$", re.MULTILINE)


@dataclass(kw_only=True)
class Departures:
    """Seconds from leaving to a free place, and to a settled lease, of every client that left in some phase."""

    freed_s: dict[str, list[float]] = field(default_factory=dict)
    settled_s: dict[str, list[float]] = field(default_factory=dict)
    allowed_s: float = FREE_WITHIN_S
    """The promise on the machine as busy as it was."""

    def leave(self, phase: str, fleet: Fleet, gate: Gate, wires: list[Wire], *, rudely: bool = False) -> float:
        """Let these clients leave at once, note when each is gone; return the seconds until all are, or fail."""
        self.allowed_s = max(self.allowed_s, patient(FREE_WITHIN_S))
        freed, settled = self.freed_s.setdefault(phase, []), self.settled_s.setdefault(phase, [])
        with httpx.Client(trust_env=False, timeout=5) as http:
            held, in_flight = _held(http, gate), _in_flight(http, fleet)
            began = time.monotonic()
            for wire in wires:
                wire.leave(rudely=rudely)
            goals = held - len(wires), in_flight - len(wires)
            while held > goals[0] or in_flight > goals[1]:
                now = max(goals[0], _held(http, gate)), max(goals[1], _in_flight(http, fleet))
                took_s = time.monotonic() - began
                freed += [took_s] * int(held - now[0])
                settled += [took_s] * int(in_flight - now[1])
                held, in_flight = min(held, now[0]), min(in_flight, now[1])
                if took_s > self.allowed_s:
                    raise AssertionError(f"{phase}: {held:g} held, {in_flight:g} in flight after {took_s:.2f} s")
        return time.monotonic() - began


def quantile(seconds: list[float], q: float) -> float:
    """Return a quantile."""
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def _held(http: httpx.Client, gate: Gate) -> float:
    load = http.get(f"{gate.url}/penstock/load").json()
    return float(load["running"] + load["waiting"])


def _in_flight(http: httpx.Client, fleet: Fleet) -> float:
    return sum(float(value) for value in _IN_FLIGHT.findall(http.get(fleet.platform.metrics_url).text))
