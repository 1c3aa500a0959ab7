"""Checks a handler's code statically, since otherwise its worker would fail minutes later."""

import ast
import warnings
from collections.abc import Iterator
from pathlib import Path

from penstock.domain.errors import ArtifactRefused
from penstock.formats.contents import HANDLER


def check(folder: Path) -> None:
    """Raise ``ArtifactRefused`` if the handler is not Python or imports files outside the version."""
    path = folder / HANDLER
    if not path.is_file():
        return
    for name in _imported(_parsed(path.read_bytes())):
        for beside in (f"{name}.py", f"{name}/__init__.py"):
            if (folder / beside).is_file():
                raise ArtifactRefused(
                    f"{HANDLER} imports {name}, which is {beside} of the folder: a version holds one file of code, "
                    f"so move into {HANDLER} what it needs"
                )


def _parsed(source: bytes) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = ast.parse(source, HANDLER)
            compile(module, HANDLER, "exec", dont_inherit=True)  # also finds what the grammar alone lets through
            return module
    except SyntaxError as error:
        at = f", line {error.lineno}" if error.lineno else ""
        raise ArtifactRefused(f"{HANDLER}{at} is not valid Python: {error.msg}") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise ArtifactRefused(f"{HANDLER} is not valid Python: {error}") from error


def _imported(module: ast.Module) -> Iterator[str]:
    """Yield the top-level name of each imported module."""
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level:
            raise ArtifactRefused(f"{HANDLER}, line {node.lineno} imports what stands beside it: there is nothing else")
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]
