"""What this gateway knows of the workers' load: what they last said, and what it has sent them since. Pure.

Trade-off: a report is exact when it comes and ages at once. What was sent since is added, and the whole fades by
half every ``HALF_LIFE_S``: a worker nobody asks any more must not look busy for ever, and a busy one says so with
its next answer. So too for how many wait at it: a rush that begins and ends between two heartbeats changes no table,
and would leave its last word in force. A queue that lasts changes from second to second, and the table with it.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from penstock.domain.ids import WorkerId
from penstock.domain.worker import Load

HALF_LIFE_S = 1.0
BELIEVED_S = 4.0
"""Longer than a change takes to come by the table: a heartbeat, the table after it, the way here."""
DRAIN_SMOOTHING = 0.2
DEFAULT_DRAIN_TOKENS_PER_S = 500.0
_NOTHING = Load()


@dataclass(slots=True)
class _Entry:
    load: Load
    at: float
    sent_tokens: int = 0
    drain_per_s: float = DEFAULT_DRAIN_TOKENS_PER_S


class LoadBoard:
    """Per worker: load, time, tokens sent since. Satisfies dispatch's ``Loads`` by shape, once bound to a clock."""

    def __init__(self) -> None:
        """Know nothing."""
        self._entries: dict[WorkerId, _Entry] = {}

    def heard(self, worker: WorkerId, load: Load, now: float) -> None:
        """A worker said how busy it is."""
        entry = self._entries.get(worker)
        if entry is None:
            self._entries[worker] = _Entry(load, now)
            return
        passed = now - entry.at
        done = entry.load.queued_tokens + entry.sent_tokens - load.queued_tokens
        if passed > 0.0 and done > 0:
            entry.drain_per_s += DRAIN_SMOOTHING * (done / passed - entry.drain_per_s)
        entry.load, entry.at, entry.sent_tokens = load, now, 0

    def dispatched(self, worker: WorkerId, tokens: int, now: float) -> None:
        """This much work was sent to a worker."""
        entry = self._entries.get(worker)
        if entry is None:
            entry = self._entries[worker] = _Entry(Load(), now)
        entry.sent_tokens += tokens

    def load(self, worker: WorkerId, table_load: Load, table_at: float, now: float) -> Load:
        """Return the newest load known: said to this gateway, or in the table put in force at ``table_at``.

        None at all where that is older than ``BELIEVED_S``: a table is made when something in it changes.
        """
        newest, at = _newest(self._entries.get(worker), table_load, table_at)
        return newest if now - at <= BELIEVED_S else _NOTHING

    def work_tokens(self, worker: WorkerId, table_load: Load, table_at: float, now: float) -> float:
        """Return the tokens of work this worker probably has before it."""
        entry = self._entries.get(worker)
        newest, at = _newest(entry, table_load, table_at)
        sent = 0 if entry is None else entry.sent_tokens
        return (newest.queued_tokens + sent) * math.exp2(-max(0.0, now - at) / HALF_LIFE_S)

    def drain_per_s(self, worker: WorkerId) -> float:
        """Return how many tokens of work this worker does in a second, smoothed."""
        entry = self._entries.get(worker)
        return entry.drain_per_s if entry is not None else DEFAULT_DRAIN_TOKENS_PER_S

    def forget(self, gone: Iterable[WorkerId]) -> None:
        """These workers are no more."""
        for worker in gone:
            self._entries.pop(worker, None)


def _newest(entry: _Entry | None, table_load: Load, table_at: float) -> tuple[Load, float]:
    """Return the newest report of a worker, and when it came."""
    return (table_load, table_at) if entry is None or entry.at < table_at else (entry.load, entry.at)
