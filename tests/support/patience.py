"""How long a test waits for something to come true: seconds of a quiet machine, more on a busy one."""

import os
import time
from collections.abc import Callable


def until(what: str, check: Callable[[], bool], *, within_s: float = 30.0, every_s: float = 0.05) -> float:
    """Wait until the check holds and return the seconds that took, or fail saying what did not come true."""
    began = time.monotonic()
    while not check():
        if time.monotonic() - began > patient(within_s):
            raise AssertionError(f"not within {within_s:g} s of a quiet machine: {what}")
        time.sleep(every_s)
    return time.monotonic() - began


def patient(seconds: float) -> float:
    """Return the time to allow here and now for an act that takes ``seconds`` on a quiet machine.

    With several processes a core, each takes that much longer.
    """
    return seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
