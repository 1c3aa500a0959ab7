"""CPU accounting of this thread by the kernel: seconds computed, and seconds runnable without a core."""

import time
from collections.abc import Mapping
from pathlib import Path

_SCHEDSTAT = Path("/proc/thread-self/schedstat")
"""Nanoseconds on a core, nanoseconds runnable, and the number of time slices (kernel: sched-stats)."""
_NS = 1e-9


def of_this_thread() -> Mapping[str, float]:
    """Return seconds by state; states that the kernel does not report are left out."""
    computing = {"computing": time.thread_time()}
    try:
        return {**computing, "starved": int(_SCHEDSTAT.read_text().split()[1]) * _NS}
    except (OSError, ValueError, IndexError):
        return computing
