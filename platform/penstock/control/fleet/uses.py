"""What heartbeats say together that one alone does not: since when a worker is as it is, and how much it is used. Pure.

Use is counted as in LRFU (Lee et al., IEEE Transactions on Computers 50(12), 2001): each time that a worker is given
work counts 1, and half as much after ``HALF_S``. One number is then both how often and how lately.

Trade-off: a short half-life is LRU, which one visit of everybody empties; a long one is LFU, which keeps what was
popular yesterday. Work that begins and ends between two heartbeats is not seen; that a worker was woken is.
"""

from penstock.domain.fleet import Seen
from penstock.domain.worker import WorkerReport, WorkerState

HALF_S = 600.0


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
    uses = worth(before, now) + 1.0 if is_new else before.uses
    return Seen(report=report, at=now, since=since, used_at=now, uses=uses)


def is_busy(report: WorkerReport) -> bool:
    """Tell whether it has work, or had when it last said so."""
    return report.load.running + report.load.waiting > 0


def worth(seen: Seen, now: float) -> float:
    """Return its uses, each for less the older it is."""
    age_s = max(0.0, now - seen.used_at)
    return float(seen.uses * 2.0 ** (-age_s / HALF_S))
