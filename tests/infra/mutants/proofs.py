"""The tests that a mistake must get past, run over a copy of the tree.

Those of the infrastructure run in a process that is forked from this one, where the SDKs are loaded once; those of the
platform in the platform's own environment.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pulumi_aws
import pulumi_kubernetes
import pytest

ROOT = Path(__file__).resolve().parents[3]
PLATFORM = "platform:"
LEFT_OUT = ("golden", "terraform", "unproven")
"""Pages that change with every edit, a second opinion that not every machine can give, and what is said about that."""

OWN = tuple(
    name
    for file in sorted(ROOT.glob("tests/infra/test_*.py"))
    if (name := file.stem.removeprefix("test_")) not in LEFT_OUT
)
WHOLE = (
    *OWN,
    f"{PLATFORM}tests/unit/contract/test_contract.py",
    f"{PLATFORM}tests/unit/connectors/kubernetes",
    f"{PLATFORM}tests/contracts/test_fleet_host.py",
    f"{PLATFORM}tests/integration/control/test_kubernetes_fleet.py",
)
PRELOADED = (pulumi_aws, pulumi_kubernetes)
"""Loaded once, for all the processes that are forked from this one."""

FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
PASSES, FAILS, BROKEN = 0, 1, 2
"""What pytest ends with: all pass, some fail, or a module could not even be loaded."""


def copied(folder: Path) -> Path:
    """Copy what git knows of the working tree, edits included."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file() and not (ROOT / name).is_symlink():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


def noticed(tree: Path, tests: Sequence[str]) -> str:
    """Name the first of these tests that fails over the tree; empty where none does."""
    own = [f"tests/infra/test_{name}.py" for name in tests if not name.startswith(PLATFORM)]
    platform = [name.removeprefix(PLATFORM) for name in tests if name.startswith(PLATFORM)]
    return (_own(tree, own) if own else "") or (_platform(tree, platform) if platform else "")


def _own(tree: Path, paths: list[str]) -> str:
    with tempfile.NamedTemporaryFile("w+", encoding="utf-8") as said:
        child = os.fork()
        if child == 0:
            os._exit(_forked(tree, paths, said.fileno()))
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return _judged(status, Path(said.name).read_text(encoding="utf-8"))


def _forked(tree: Path, paths: list[str], said: int) -> int:
    os.dup2(said, 1)
    os.dup2(said, 2)
    os.chdir(tree)
    for name in [name for name in sys.modules if name.split(".")[0] in ("infra", "tests", "penstock")]:
        del sys.modules[name]
    sys.path[:] = [str(tree), *(part for part in sys.path if part not in ("", str(ROOT)))]
    sys.dont_write_bytecode = True  # a mistake is as old as what it replaces, and may be as long
    words = ["-c", "infra/pytest.ini", "--rootdir=.", "--confcutdir=tests/infra", "-m", "not slow"]
    return int(pytest.main([*words, "-x", "-q", "--tb=no", "-rfE", *paths]))


def _platform(tree: Path, paths: list[str]) -> str:
    done = subprocess.run(
        [ROOT / ".venv/bin/python", "-m", "pytest", "-x", "-q", "--tb=no", "-rfE", "-p", "no:cacheprovider", *paths],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree / "platform"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return _judged(done.returncode, done.stdout + done.stderr)


def _judged(status: int, said: str) -> str:
    """Name what failed. Raises `RuntimeError` where the tests did not run: that proves nothing."""
    found = FAILED.search(said)
    if status == PASSES:
        return ""
    if status not in (FAILS, BROKEN) or found is None:
        raise RuntimeError(f"pytest ended with {status}:\n{said[-2000:]}")
    return found.group(1)
