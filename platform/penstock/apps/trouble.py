"""What a person at the terminal is told when something can't go on: what happened, what to do, where to look.

Not for clients of the API: those get the error tree of ``domain/errors.py``.
"""

from collections import deque
from pathlib import Path

TAIL_LINES = 15


class Trouble(Exception):
    """A command can't go on."""

    def __init__(self, what: str, *, do: str = "", log: Path | None = None) -> None:
        """Take one sentence each for what happened and the next step, and the log that tells more."""
        super().__init__(what)
        self.what = what
        self.do = do
        self.log = log


def tail(log: Path, lines: int = TAIL_LINES) -> list[str]:
    """Return the last lines of a log, without the line ends; none where there is no log."""
    try:
        with log.open(errors="replace") as file:
            return [line.rstrip("\n") for line in deque(file, maxlen=lines)]
    except OSError:
        return []
