"""The repository as files: what is in it, and Python source as syntax trees."""

import ast
import os
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE_FOLDERS = ("platform", "slo", "dashboards", "infra", "loadtests", "scripts", "tests")
Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def files() -> tuple[Path, ...]:
    """Return every file of the repository: tracked ones and new ones that git doesn't ignore."""
    git = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    names = set(git.stdout.split("\0")) - {""} if git.returncode == 0 else walk(ROOT)
    return tuple(path for name in sorted(names) if (path := ROOT / name).is_file())


def walk(root: Path) -> set[str]:
    """List a source tree that came without git, leaving out what .gitignore names."""
    ignored = {"__pycache__", "build", "dist", "reports", "htmlcov", "node_modules"}
    kept_dot_folders = {".ci"}
    found: set[str] = set()
    for folder, folders, names in os.walk(root):
        folders[:] = [
            name for name in folders if name in kept_dot_folders or not (name in ignored or name.startswith("."))
        ]
        found.update((Path(folder) / name).relative_to(root).as_posix() for name in names)
    return found


def python_files(*folders: str) -> list[Path]:
    """Return the Python files written by people below the given top folders."""
    return [
        path
        for path in files()
        if path.suffix == ".py"
        and path.relative_to(ROOT).parts[0] in folders
        and "generated" not in path.parts
        and "_pb2" not in path.name
    ]


def functions(path: Path) -> Iterator[Function]:
    """Yield every function of a file, inner ones and methods too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def place(path: Path, line: int = 0) -> str:
    """Name a place in the repository for a message: path, or path:line."""
    name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
    return f"{name}:{line}" if line else name
