"""Another's program never outlives whoever started it, with real processes."""

import os
import subprocess
import sys
from pathlib import Path

from penstock.supervision import tied
from tests.support.patience import until

PARENT = """
import subprocess, sys
from penstock.supervision import tied
child = subprocess.Popen(tied.argv("/bin/sleep", "60"))
print(child.pid, flush=True)
child.wait()
"""


def named(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def test_it_becomes_the_program_and_ends_with_its_parent() -> None:
    """The process keeps its id under the program's name, and is gone after kill -9 of the parent."""
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    try:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        until("it is the other program", lambda: named(pid) == "sleep")
    finally:
        parent.kill()
        parent.communicate()
    until("it has ended", lambda: named(pid) == "")


def test_it_starts_nothing_for_a_parent_that_is_gone() -> None:
    """A supervisor that died in between leaves no program behind."""
    interpreter, *arguments = tied.argv("/bin/echo", "never said")
    arguments[arguments.index(str(os.getpid()))] = "1"
    assert subprocess.check_output([interpreter, *arguments], text=True) == ""
