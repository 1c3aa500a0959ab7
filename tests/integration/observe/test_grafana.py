"""Boards held to Grafana's own types: an outside truth that did not come from us."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dashboards import build
from tests.support.tree import ROOT

pytestmark = pytest.mark.observe

INSTALLED = ROOT / "build/grafana"
PLACES: dict[str, tuple[str, ...]] = {
    "a board's key": ("sharedCrosshair",),
    "a panel's key": ("panels", "1", "datasourc"),
    "a data source by its name": ("panels", "1", "datasource"),
    "a variable's key": ("templating", "list", "1", "useTags"),
}


def checked(folder: Path) -> subprocess.CompletedProcess[str]:
    """Compile the boards of a folder against @grafana/schema."""
    assert (INSTALLED / "node_modules/typescript").is_dir(), "Grafana's types are not here: run `make grafana-types`"
    shutil.copy(ROOT / "dashboards/grafana/check.mjs", INSTALLED)
    return subprocess.run(
        ["node", "check.mjs", folder], cwd=INSTALLED, capture_output=True, text=True, check=False, timeout=110
    )


def test_grafanas_own_types_take_every_board(tmp_path: Path) -> None:
    """No key is unknown to Grafana and no value is of the wrong kind."""
    written = build.write(tmp_path)
    done = checked(tmp_path)
    assert f"{len(written)} boards, 0 errors" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0


def spoilt(board: Any, path: tuple[str, ...]) -> None:  # noqa: ANN401  JSON
    for key in path[:-1]:
        board = board[int(key)] if isinstance(board, list) else board[key]
    board[path[-1]] = ["what no Grafana knows"]


def test_what_grafana_does_not_know_is_found(tmp_path: Path) -> None:
    """Keys and values of an old Grafana, planted one in each board, are each an error of the compiler."""
    for name, path in PLACES.items():
        board = build.boards()["penstock-overview"]
        spoilt(board, path)
        (tmp_path / f"{name.replace(' ', '-')}.json").write_text(json.dumps(board))
    done = checked(tmp_path)
    assert done.returncode == 1
    assert all(f"{name.replace(' ', '-')}.ts" in done.stdout for name in PLACES), done.stdout
