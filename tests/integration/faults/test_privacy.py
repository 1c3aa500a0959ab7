"""Comes last in this folder: after all faults and bad input, no prompt stands in any log."""

from pathlib import Path

import pytest

from tests.support.failures.table import CANARY, FaultTable, leaks, log_folders

pytestmark = pytest.mark.integration


def test_a_leak_is_found(tmp_path: Path) -> None:
    """The search finds a prompt that was planted in a log, and names file and line."""
    (tmp_path / "engines").mkdir()
    (tmp_path / "engines/engine.log").write_text(f"first\nprompt: {CANARY}!\n")
    assert [place.rpartition("/")[2].partition(": ")[0] for place in leaks([tmp_path], CANARY)] == ["engine.log:2"]


def test_no_prompt_is_in_any_log(homes: Path, leaked: list[str], faults: FaultTable) -> None:
    """Of all that the fault tests sent, nothing is in the logs and run files of any platform of this session."""
    folders = log_folders(homes)
    assert folders, "no platform has run"
    assert [*leaked, *leaks(folders, CANARY)] == []
    files = sum(1 for folder in folders for path in folder.rglob("*") if path.is_file())
    faults.add("a canary in every prompt", f"in none of {files} log and run files, nor in those of platforms before")
