"""What the kernel says of processes that it killed for want of memory."""

from contextlib import suppress
from pathlib import Path


def oom_kills() -> int | None:
    """Return how many processes this kernel has killed for want of memory, None if it does not say."""
    with suppress(OSError, ValueError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            name, _, value = line.partition(" ")
            if name == "oom_kill":
                return int(value)
    return None
