"""Processes with a wrong clock: a real gateway or controller with the time of day off by some seconds.

Run as ``python -m tests.support.failures.wrong_clock gateway``. Monotonic clocks are right: they have no origin.
"""

import os
import time

AHEAD = "TEST_CLOCK_AHEAD_S"


def wrong_by(ahead_s: float) -> dict[str, str]:
    """Return the environment of a process with its clock ahead by these seconds."""
    return {AHEAD: str(ahead_s)} if ahead_s else {}


def be_wrong() -> None:
    """Put this process's clock off, if its environment says so."""
    ahead_s, right = float(os.environ.get(AHEAD, "0")), time.time
    if ahead_s:
        time.time = lambda: right() + ahead_s


if __name__ == "__main__":
    be_wrong()
    from penstock.cli import application

    application()()
