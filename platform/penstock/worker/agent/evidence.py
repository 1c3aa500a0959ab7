"""Reads signs of activity from an engine's processes and log while its counters make no progress.

It only reads ``/proc``; ``watchdog`` draws the conclusions.
"""

from penstock.worker.agent.log_tail import LogTail
from penstock.worker.agent.watchdog import Doing, doing
from penstock.worker.engines import vitals
from penstock.worker.engines.vitals import Vitals

COMPILING = (b"Compiling a graph", b"Capturing CUDA graph", b"Start compiling")
"""Log lines with which vLLM begins to compile."""


class EngineEvidence:
    def __init__(self, pid: int, log: LogTail) -> None:
        self._pid, self._log = pid, log
        self.says_compiling = False
        self._before: tuple[Vitals, float] | None = None

    def read_log(self, *, moved: bool) -> None:
        """Read new log lines and bound the log's size; activity before the last progress is dropped."""
        if moved:
            self.says_compiling, self._before = False, None
        self.says_compiling = self._log.has_new(COMPILING) or self.says_compiling
        self._log.trim()

    def look(self, now: float, *, answers: bool) -> Doing:
        """Return the engine's activity since the last call; at the first call, its present activity."""
        seen = vitals.read(self._pid)
        before, at = self._before or (None, now)
        self._before = (seen, now)
        did = doing(before, seen, now - at, answers=answers)
        return Doing.COMPILING if did is Doing.WORKING and self.says_compiling else did
