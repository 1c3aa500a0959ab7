"""What the person at the terminal is told when a command can't go on: what happened, what to do, where to look.

Not for clients of the API: those get the error tree of ``domain/errors.py``.
"""

from pathlib import Path


class CommandError(Exception):
    """A command can't go on."""

    def __init__(self, what: str, *, do: str = "", log: Path | None = None) -> None:
        """Take one sentence each for what happened and the next step, and the log that tells more."""
        super().__init__(what)
        self.what = what
        self.do = do
        self.log = log
