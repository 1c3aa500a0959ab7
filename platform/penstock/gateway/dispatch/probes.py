"""The order of probes: one at a time per worker, at bounded rates, few at once. Pure.

Trade-off: suspicions from an engine's answers are probed about once a second, since callers can cause them; a worker
that may be dead is probed almost at once.
"""

from collections.abc import Iterable, Iterator
from itertools import chain

from penstock.domain.ids import WorkerId
from penstock.gateway.dispatch.records import Probe

EVERY_S, URGENT_EVERY_S = 1.0, 0.25
MOST_AT_ONCE = 32


class ProbePlan:
    def __init__(self) -> None:
        self._wanted: dict[WorkerId, Probe] = {}
        self._running: dict[WorkerId, Probe] = {}
        self._ended_at: dict[WorkerId, float] = {}

    def want(self, probe: Probe) -> bool:
        before = self._wanted.get(probe.worker)
        if probe.worker in self._running or (before is not None and (before.is_urgent or not probe.is_urgent)):
            return False
        self._wanted[probe.worker] = probe
        return True

    def take(self, half_open: Iterable[Probe], now: float) -> list[Probe]:
        room = MOST_AT_ONCE - len(self._running)
        taken: list[Probe] = []
        for probe in self._ready(half_open, now):
            if len(taken) >= room:
                break
            taken.append(probe)
        for probe in taken:
            self._wanted.pop(probe.worker, None)
            self._running[probe.worker] = probe
        return taken

    def next_at(self) -> float:
        """The second of the next wanted probe; infinite if none may start."""
        if len(self._running) >= MOST_AT_ONCE:
            return float("inf")
        return min((self._may_at(probe) for probe in self._wanted.values()), default=float("inf"))

    def is_running(self, worker: WorkerId) -> bool:
        return worker in self._running

    def is_wanted(self, worker: WorkerId) -> bool:
        return worker in self._wanted

    def ended(self, probe: Probe, now: float) -> bool:
        if self._running.get(probe.worker) is not probe:
            return False
        del self._running[probe.worker]
        self._ended_at[probe.worker] = now
        return True

    def interrupted(self) -> list[Probe]:
        probes = list(self._running.values())
        self._running.clear()
        return probes

    def drop(self, worker: WorkerId) -> None:
        self._wanted.pop(worker, None)

    def forget(self, worker: WorkerId) -> None:
        self._wanted.pop(worker, None)
        self._running.pop(worker, None)
        self._ended_at.pop(worker, None)

    def _ready(self, half_open: Iterable[Probe], now: float) -> Iterator[Probe]:
        wanted = sorted(self._wanted.values(), key=lambda probe: not probe.is_urgent)
        seen: set[WorkerId] = set()
        for probe in chain(wanted, half_open):
            if probe.worker not in self._running and probe.worker not in seen and self._may_at(probe) <= now:
                seen.add(probe.worker)
                yield probe

    def _may_at(self, probe: Probe) -> float:
        ended_at = self._ended_at.get(probe.worker)
        every_s = URGENT_EVERY_S if probe.is_urgent else EVERY_S
        return ended_at + every_s if ended_at is not None else float("-inf")
