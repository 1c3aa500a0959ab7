"""The kernel's count of OOM kills."""

from contextlib import suppress
from pathlib import Path


def oom_kills() -> int | None:
    """Return this kernel's number of OOM kills, None if unknown."""
    with suppress(OSError, ValueError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            name, _, value = line.partition(" ")
            if name == "oom_kill":
                return int(value)
    return None
