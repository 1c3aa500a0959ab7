"""The two phases of scale-in: cordon a worker (it leaves the routing table), then end it once no request runs. Pure.

A worker with a running stream is never ended: it costs its price until then.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from penstock.domain.fleet.versions import Seen
from penstock.domain.ids import WorkerId
from penstock.scaling.constants import RESIDENCY_TIMES, SETTLE_S


def chosen(ready: Sequence[Seen], count: int, now: float, start_s: float) -> tuple[WorkerId, ...]:
    """Choose workers one by one: the idlest of the largest zone; none that started too recently."""
    stayed = [one for one in ready if now - one.since >= RESIDENCY_TIMES * min(start_s, _own_start_s(one) or start_s)]
    zones = Counter(one.report.zone for one in ready)
    idlest = sorted(stayed, key=lambda one: (work(one), one.report.load.queued_tokens, one.report.worker), reverse=True)
    found: list[WorkerId] = []
    while idlest and len(found) < count:
        fullest = max(zones[one.report.zone] for one in idlest)
        one = next(one for one in reversed(idlest) if zones[one.report.zone] == fullest)
        idlest.remove(one)
        zones[one.report.zone] -= 1
        found.append(one.report.worker)
    return tuple(found)


def _own_start_s(one: Seen) -> float:
    return sum(phase.seconds for phase in one.report.phases)


def drained(cordoned: Iterable[Seen], since: Mapping[WorkerId, float], heard_after: float) -> tuple[WorkerId, ...]:
    """Return the workers idle in a report made after all gateways stopped sending to them."""
    return tuple(
        one.report.worker
        for one in cordoned
        if work(one) == 0 and one.at > heard_after and one.at - since[one.report.worker] >= SETTLE_S
    )


def taken_back(cordoned: Sequence[Seen], count: int) -> tuple[WorkerId, ...]:
    """The busiest first, since they would be the last to become idle."""
    busiest = sorted(cordoned, key=lambda one: (-work(one), one.report.worker))
    return tuple(one.report.worker for one in busiest[:count])


def work(one: Seen) -> int:
    return one.report.load.running + one.report.load.waiting
