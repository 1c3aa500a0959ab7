"""Hard limits of size. The targets are half of them: 200 lines a file, 25 lines a function."""

from pathlib import Path

from tests.support import tree

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60


def long_files(paths: list[Path]) -> list[str]:
    lengths = ((path, len(path.read_text().splitlines())) for path in paths)
    return [f"{tree.place(path)} has {lines} lines" for path, lines in lengths if lines > MAX_FILE_LINES]


def long_functions(paths: list[Path]) -> list[str]:
    return [
        f"{tree.place(path, node.lineno)} {node.name} has {lines} lines"
        for path in paths
        for node in tree.functions(path)
        if (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > MAX_FUNCTION_LINES
    ]


def test_files_stay_short() -> None:
    """No Python file is longer than four hundred lines."""
    assert long_files(tree.python_files(*tree.SOURCE_FOLDERS)) == []


def test_functions_stay_short() -> None:
    """No function is longer than sixty lines."""
    assert long_functions(tree.python_files(*tree.SOURCE_FOLDERS)) == []


def test_a_long_file_is_found(tmp_path: Path) -> None:
    """A file one line over the limit is reported, and one at the limit isn't."""
    over, at = tmp_path / "over.py", tmp_path / "at.py"
    over.write_text("x = 1\n" * (MAX_FILE_LINES + 1))
    at.write_text("x = 1\n" * MAX_FILE_LINES)
    assert long_files([over, at]) == ["over.py has 401 lines"]


def test_a_long_function_is_found(tmp_path: Path) -> None:
    """A method one line over the limit is reported by name and place."""
    path = tmp_path / "long.py"
    path.write_text("class A:\n    def f(self):\n" + "        x = 1\n" * MAX_FUNCTION_LINES)
    assert long_functions([path]) == ["long.py:2 f has 61 lines"]
