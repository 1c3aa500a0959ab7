"""Another's program as a child that ends with its supervisor: ``python -m penstock.supervision.tied PID PROGRAM …``.

It becomes that program: same process id, and the kernel's promise of a signal outlives the change.
"""

import os
import sys

from penstock.supervision.parent import terminate_with


def argv(program: str, *arguments: str) -> tuple[str, ...]:
    """Return how this process starts the program so that it does not outlive it."""
    return (sys.executable, "-m", "penstock.supervision.tied", str(os.getpid()), program, *arguments)


def main(parent: str, program: list[str]) -> None:
    """Become the program."""
    terminate_with(int(parent))
    os.execv(program[0], program)  # noqa: S606  a list, and never a shell


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
