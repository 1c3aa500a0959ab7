"""Writes every board as JSON: ``python -m dashboards.build [FOLDER]``. Each file in ``boards/`` is a board.

Its name is the end of the UID. A new board is a file with a ``BOARD`` in it, and nothing else.
"""

import importlib
import json
import sys
from pathlib import Path
from typing import Any

from dashboards import modern
from dashboards.layout import Board, laid_out

HERE = Path(__file__).parent
OUT = HERE.parent / "build/dashboards"
PREFIX = "penstock-"


def boards(folder: Path = HERE / "boards") -> dict[str, dict[str, Any]]:
    """Return the JSON of each board by its UID."""
    return {f"{PREFIX}{file.stem}": _json(file.stem) for file in sorted(folder.glob("[!_]*.py"))}


def _json(name: str) -> dict[str, Any]:
    board: Board = importlib.import_module(f"dashboards.boards.{name}").BOARD
    return modern.written(laid_out(board, f"{PREFIX}{name}"))


def write(folder: Path) -> list[Path]:
    """Write them, and remove boards that are no more."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob(f"{PREFIX}*.json"):
        old.unlink()
    return [_write(folder / f"{uid}.json", board) for uid, board in boards().items()]


def _write(file: Path, board: dict[str, Any]) -> Path:
    file.write_text(json.dumps(board, indent=2, sort_keys=True) + "\n")
    return file


if __name__ == "__main__":
    for path in write(Path(sys.argv[1]) if len(sys.argv) > 1 else OUT):
        print(path)
