"""Since when a worker is in its state, and how much it is used, by its heartbeats. Pure.

Each time that a worker is given work counts 1, and half as much after ``HALF_S`` (LRFU, ``fairness/fading.py``). A
worker that was used a moment ago is in a conversation, and is worth more.

Trade-off: what is lately alone (LRU) is emptied by one visit of everybody, what is often alone (LFU) takes a model away
in the middle of a conversation. ``tests/simulation/test_pool.py`` holds the sum of both against Belady's bound. Work
that begins and ends between two heartbeats is not seen; that a worker was woken is.
"""

import math

from penstock.domain.fleet.versions import Seen
from penstock.domain.fleet.worker import WorkerReport, WorkerState
from penstock.fairness.fading import Fading

HALF_S = 600.0
SOON_PER_S, SOON_S = 0.02, 15.0
"""How often a second who was just used is used again, beside that, and after how long half as often."""


def follow(before: Seen | None, report: WorkerReport, now: float) -> Seen:
    """Return what is known of a worker once this report has come (Unix seconds)."""
    if before is None:
        is_active = is_busy(report)
        return Seen(report=report, at=now, used_at=now if is_active else 0.0, uses=float(is_active))
    is_same = before.report.state is report.state
    since = before.since if is_same else now
    was_woken = report.state is WorkerState.WAKING and not is_same
    if not is_busy(report) and not was_woken:
        return Seen(report=report, at=now, since=since, used_at=before.used_at, uses=before.uses)
    is_new = was_woken or not is_busy(before.report)
    uses = _count(before, now) + 1.0 if is_new else before.uses
    return Seen(report=report, at=now, since=since, used_at=now, uses=uses)


def is_busy(report: WorkerReport) -> bool:
    """Tell whether it has work, or had when it last said so."""
    return report.load.running + report.load.waiting > 0


def worth(seen: Seen, now: float) -> float:
    """Return how often a second a worker is likely to be used from now on; 0 where it never was."""
    if not seen.uses:
        return 0.0
    age_s = max(0.0, now - seen.used_at)
    return float(_count(seen, now) * math.log(2.0) / HALF_S + SOON_PER_S * 2.0 ** (-age_s / SOON_S))


def _count(seen: Seen, now: float) -> float:
    """Return its uses, each for less the older it is."""
    return Fading(seen.uses, seen.used_at).now(now, HALF_S)
