"""Identifies a process by id and start time, since the kernel reuses ids."""

import os
import signal
from contextlib import suppress
from pathlib import Path

_STARTED = 19
"""The field of the start time in ``/proc/<pid>/stat``, counted after the name (proc(5), field 22)."""


def started(pid: int) -> str:
    """Return the process's start; empty if it has ended or is a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else f"{boot}/{fields[_STARTED]}"


def send(pid: int, start: str, number: signal.Signals) -> None:
    """Send the signal, never to another process with the same id."""
    with suppress(ProcessLookupError):
        fd = os.pidfd_open(pid)
        try:
            if started(pid) == start:
                signal.pidfd_send_signal(fd, number)
        finally:
            os.close(fd)


def kill_group(pid: int, start: str) -> None:
    with suppress(ProcessLookupError):
        if started(pid) == start:
            os.killpg(pid, signal.SIGKILL)
