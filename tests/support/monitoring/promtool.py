"""Prometheus' own checker and test runner: many files in one process, each with its verdict."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

GARBAGE_PERCENT = "400"
"""How far Go's heap may grow between two collections: with its own 100 they take a quarter of the time."""


def program(name: str) -> str:
    """Return the path of a tool of `make observability`, or fail: these proofs are not to be skipped."""
    found = shutil.which(name) or shutil.which(name, path=Path(sys.executable).parent)
    assert found, f"{name} is not here: run `make observability`"
    return found


def check(files: Sequence[Path]) -> None:
    """Fail with promtool's words if Prometheus would refuse one of the files."""
    done = _promtool("check", files)
    assert done.returncode == 0, done.stdout


def failures(tests: Sequence[Path]) -> dict[Path, str]:
    """Run all test files in one process; return those that failed, each with why."""
    told = re.split(r"^Unit Testing: +(.+)$", _promtool("test", tests).stdout, flags=re.MULTILINE)[1:]
    verdicts = dict(zip(told[::2], told[1::2], strict=True))
    return {path: verdicts[str(path)] for path in tests if "SUCCESS" not in verdicts[str(path)]}


def _promtool(verb: str, files: Sequence[Path]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program("promtool"), verb, "rules", *files],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,  # so that what went wrong stands below the file's own line
        text=True,
        env=os.environ | {"GOGC": GARBAGE_PERCENT},
        check=False,
    )


def write(path: Path, content: object) -> Path:
    """Write an object as JSON, which is YAML too and much quicker to write, and return the path."""
    path.write_text(json.dumps(content))
    return path
