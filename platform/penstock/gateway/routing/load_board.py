"""The workers' load as this gateway knows it: their last reports, and the tokens sent since. Pure.

Trade-off: a report is outdated at once, so tokens sent since are added. Their sum halves every ``HALF_LIFE_S``: an idle
worker must not look busy forever, and a busy one reports with its next answer.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from penstock.domain.ids import WorkerId
from penstock.domain.serving.report import Load

HALF_LIFE_S = 1.0
BELIEVED_S = 4.0
"""Seconds for which a report counts: longer than a change takes through heartbeat and table."""
_NOTHING = Load()


class SeenLoad(NamedTuple):
    """The load is empty if the report is older than ``BELIEVED_S``."""

    load: Load
    work_tokens: float


@dataclass(slots=True)
class _Entry:
    load: Load
    at: float
    sent_tokens: int = 0


class LoadBoard:
    def __init__(self) -> None:
        self._entries: dict[WorkerId, _Entry] = {}

    def heard(self, worker: WorkerId, load: Load, now: float) -> None:
        entry = self._entries.get(worker)
        if entry is None:
            self._entries[worker] = _Entry(load, now)
            return
        entry.load, entry.at, entry.sent_tokens = load, now, 0

    def dispatched(self, worker: WorkerId, tokens: int, now: float) -> None:
        entry = self._entries.get(worker)
        if entry is None:
            entry = self._entries[worker] = _Entry(Load(), now)
        entry.sent_tokens += tokens

    def seen(self, worker: WorkerId, table_load: Load, table_at: float, now: float) -> SeenLoad:
        """The newer of two reports: the worker's to this gateway, or the table's of ``table_at``."""
        entry = self._entries.get(worker)
        if entry is None:
            newest, at, queued = table_load, table_at, table_load.queued_tokens
        elif entry.at < table_at:
            newest, at, queued = table_load, table_at, table_load.queued_tokens + entry.sent_tokens
        else:
            newest, at, queued = entry.load, entry.at, entry.load.queued_tokens + entry.sent_tokens
        age_s = now - at
        work = queued * math.exp2(-age_s / HALF_LIFE_S) if queued and age_s > 0.0 else float(queued)
        return SeenLoad(newest if age_s <= BELIEVED_S else _NOTHING, work)

    def forget(self, gone: Iterable[WorkerId]) -> None:
        for worker in gone:
            self._entries.pop(worker, None)
