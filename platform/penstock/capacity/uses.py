"""A worker's use according to its heartbeats, and the time since its last change of state. Pure.

Each time that a worker becomes busy counts 1, which halves every ``HALF_S`` (LRFU, ``fairness/fading.py``).

Trade-off: with LRU alone one use of each model evicts all others, with LFU alone a model is evicted during a
conversation.
"""

import math

from penstock.domain.fleet.versions import Seen
from penstock.domain.fleet.worker import WorkerReport, WorkerState
from penstock.fairness.fading import Fading

HALF_S = 600.0
SOON_PER_S, SOON_S = 0.02, 15.0
"""Additional uses a second of a worker just used, and the time after which they halve."""


def follow(before: Seen | None, report: WorkerReport, now: float) -> Seen:
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
    return report.load.running + report.load.waiting > 0


def uses_per_s(seen: Seen, now: float) -> float:
    """Expected from now on; 0 if it was never used."""
    if not seen.uses:
        return 0.0
    age_s = max(0.0, now - seen.used_at)
    return float(_count(seen, now) * math.log(2.0) / HALF_S + SOON_PER_S * 2.0 ** (-age_s / SOON_S))


def _count(seen: Seen, now: float) -> float:
    return Fading(seen.uses, seen.used_at).now(now, HALF_S)
