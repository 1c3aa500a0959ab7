"""Asks the kernel to signal a child at its supervisor's death, so that no child outlives the supervisor."""

import ctypes
import os
import signal

PR_SET_PDEATHSIG = 1


def terminate_with(parent: int) -> None:
    """Get SIGTERM (drain) when ``parent`` dies, even by ``kill -9``; exit at once if it is dead already.

    Linux only. The kernel watches the *thread* that started the child: a supervisor starts children from its main
    thread.
    """
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        raise SystemExit(0)
