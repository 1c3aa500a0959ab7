"""A child that must not outlive its supervisor asks the kernel for a signal when the supervisor dies."""

import ctypes
import os
import signal

PR_SET_PDEATHSIG = 1


def terminate_with(parent: int) -> None:
    """Get SIGTERM (which drains) when ``parent`` dies, even by ``kill -9``; exit at once where it is dead already.

    Linux only. The signal comes when the *thread* that started us ends, so a supervisor starts children
    from its main thread.
    """
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        raise SystemExit(0)
