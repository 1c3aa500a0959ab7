"""Runs a foreign program as a child that ends with its supervisor: ``python -m penstock.supervision.tied PID
PROGRAM …``.

It replaces itself by the program (exec): the process id and the kernel's parent-death signal are kept.
"""

import os
import sys

from penstock.supervision.parent import terminate_with


def argv(program: str, *arguments: str) -> tuple[str, ...]:
    """Return the command line that starts the program tied to this process."""
    return (sys.executable, "-m", "penstock.supervision.tied", str(os.getpid()), program, *arguments)


def main(parent: str, program: list[str]) -> None:
    terminate_with(int(parent))
    os.execv(program[0], program)  # noqa: S606  a list, and never a shell


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
