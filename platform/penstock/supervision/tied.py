"""Runs a foreign program as a child that ends with its supervisor: ``python -m penstock.supervision.tied PID
PROGRAM …``.

The module replaces itself with the program (exec), which keeps the process id and the kernel's parent-death signal.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def terminate_with(parent: int) -> None:
    """SIGTERM (drain) when ``parent`` dies, even by ``kill -9``; exit at once if it is dead already."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        raise SystemExit(0)


def argv(program: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "penstock.supervision.tied", str(os.getpid()), program, *arguments)


def main(parent: str, program: list[str]) -> None:
    terminate_with(int(parent))
    os.execv(program[0], program)  # noqa: S606  a list, and never a shell


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
