"""The workers of each version as supply: serving, coming, parked, cordoned, silent. Pure.

A worker that starts and reports counts as coming, however slow, unless it is overdue and another one sleeps; one that
never reported, until it is overdue. A silent one is neither supply nor a reason to scale in.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.domain.fleet.versions import Running, Seen
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import VersionId, WorkerId
from penstock.scaling.constants import OVERDUE_TIMES

_READY, _SLEEPING, _WAKING = WorkerState.READY, WorkerState.SLEEPING, WorkerState.WAKING


@dataclass(slots=True)
class Supply:
    """One version's workers; ``unheard`` have a process and sent no report yet."""

    ready: list[Seen] = field(default_factory=list)
    coming: list[Seen] = field(default_factory=list)
    parked: list[Seen] = field(default_factory=list)
    cordoned: list[Seen] = field(default_factory=list)
    unheard: list[Running] = field(default_factory=list)
    gone: int = 0
    """Cordoned workers without a process here that are silent: none is counted on, and none comes back unseen."""
    awake: int = 0
    """Processes that hold or will hold an engine's memory."""
    brought_s: dict[WorkerId, float] = field(default_factory=dict)
    """Seconds that a machine and an image took before the worker's first phase."""
    oldest_start: float = math.inf
    """When the process of the oldest worker on its way to serve began."""

    def counted(self, now: float, start_s: float) -> int:
        return len(self.ready) + len(self.coming) + len(self.unheard) - self.overdue(now, start_s)

    def overdue(self, now: float, start_s: float) -> int:
        late_after_s = OVERDUE_TIMES * start_s
        stuck = sum(now - one.since > late_after_s for one in self.coming if one.since) if self.parked else 0
        return stuck + sum(now - one.started_at > late_after_s for one in self.unheard)

    def starts_s(self, since: float) -> Iterator[float]:
        for one in self.ready:
            if one.since > since and one.report.phases and one.report.phases[0].phase is not _WAKING:
                brought_s = self.brought_s.get(one.report.worker, 0.0)
                yield brought_s + sum(phase.seconds for phase in one.report.phases)

    def lead_s(self, now: float, start_s: float) -> float:
        """Return a wake's seconds if a worker sleeps, else a start's, or the present start's if longer."""
        waking = [one.report.restart_s for one in self.parked if one.report.restart_s]
        return min(waking) if waking else max(start_s, now - self.oldest_start)


def supplies(
    seen: Sequence[Seen], running: Sequence[Running], cordoned: Collection[WorkerId], heard_after: float
) -> Mapping[VersionId, Supply]:
    found: dict[VersionId, Supply] = defaultdict(Supply)
    heard: dict[WorkerId, WorkerState] = {}
    leaving = {one.worker: one.draining for one in running}
    for one in seen:
        report = one.report
        heard[report.worker] = report.state
        if leaving.get(report.worker):
            continue
        if report.worker in cordoned and report.worker not in leaving and one.at <= heard_after:
            found[report.version].gone += 1
        _count(found[report.version], one, is_fresh=one.at > heard_after, is_cordoned=report.worker in cordoned)
    for process in running:
        state = heard.get(process.worker)
        found[process.version].awake += state is not _SLEEPING
        found[process.version].brought_s[process.worker] = process.machine_s + process.image_s
        if state is not _READY and not process.draining:
            _count_start(found[process.version], process, state)
    return found


def _count(supply: Supply, one: Seen, *, is_fresh: bool, is_cordoned: bool) -> None:
    state = one.report.state
    if state is _READY:
        if is_cordoned:
            supply.cordoned.append(one)
        elif is_fresh:
            supply.ready.append(one)
    elif is_fresh and state is _SLEEPING:
        supply.parked.append(one)
    elif is_fresh and state.is_starting:
        supply.coming.append(one)


def _count_start(supply: Supply, process: Running, state: WorkerState | None) -> None:
    if state is None:
        supply.unheard.append(process)
    elif state.is_starting and state is not _WAKING:
        supply.oldest_start = min(supply.oldest_start, process.started_at)
