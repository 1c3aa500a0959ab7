"""Runs the load test's command as a user would, in a process of its own: Locust must never be imported by pytest's."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadtests.drive.records import Record
from loadtests.drive.run import RunFolder

ROOT = Path(__file__).resolve().parents[3]
WITHIN_S = 100.0
Patient = tuple[str, Path]
"""An option of the command, and a folder of promises."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a load test ended: its exit code, its words, its folder."""

    code: int
    said: str
    folder: Path

    @property
    def verdict(self) -> dict[str, Any]:
        """Return ``verdict.json``."""
        found: dict[str, Any] = json.loads((self.folder / "verdict.json").read_text())
        return found

    def finding(self, indicator: str) -> object:
        """Return what was found of a promise to a whole tier."""
        return next(
            one["finding"] for one in self.verdict["objectives"] if one["indicator"] == indicator and not one["tenant"]
        )

    @property
    def records(self) -> list[Record]:
        return RunFolder(self.folder).records()


def loadtest(folder: Path, *words: object, key: str = "") -> Ended:
    with started(folder, *words, key=key) as process:
        said, _ = process.communicate(timeout=WITHIN_S)
    return Ended(code=process.returncode, said=said, folder=folder)


@contextmanager
def started(folder: Path, *words: object, key: str = "") -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "loadtests", *map(str, words), "--out", str(folder)]
    environment = {"LOADTEST_KEY": key, "COLUMNS": "160", "PATH": ""}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def program(name: str, *words: str) -> Iterator[str]:
    """Run a program of this folder and yield the address that it serves."""
    command = [sys.executable, str(ROOT / f"tests/support/clients/{name}.py"), *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()
