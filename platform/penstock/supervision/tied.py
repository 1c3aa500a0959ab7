"""Runs a foreign program as a child that ends with its supervisor: ``python -m penstock.supervision.tied PID
PROGRAM …``.

The module replaces itself with the program (exec), which keeps the process id and the kernel's parent-death signal.
"""

import os
import sys

from penstock.supervision.parent import terminate_with


def argv(program: str, *arguments: str) -> tuple[str, ...]:
    """Return the command line that starts the program as a child that ends with this process."""
    return (sys.executable, "-m", "penstock.supervision.tied", str(os.getpid()), program, *arguments)


def main(parent: str, program: list[str]) -> None:
    terminate_with(int(parent))
    os.execv(program[0], program)  # noqa: S606  a list, and never a shell


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
