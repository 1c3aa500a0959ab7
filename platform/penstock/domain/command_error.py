"""Errors for a person at the terminal: the fault, the next step, the place to look.

API clients get the error tree of ``domain/errors.py`` instead.
"""

from pathlib import Path


class CommandError(Exception):
    """A command can't go on."""

    def __init__(self, what: str, *, do: str = "", log: Path | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.do = do
        self.log = log
