"""What an object needs is given to its constructor: a callback that is set later is a circle that imports don't show.

Counted are assignments to an attribute of another object, if the attribute is declared as a callable, or if they stand
in a composition root (``apps/``), which constructs and does nothing else.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.support import tree

MOST = 5
"""Each has its reason in a comment beside its declaration."""
_COMPOSITION = "platform/penstock/apps/"
_STATE = frozenset({"is_on", "should_exit"})
"""Plain switches: a process tells its server to end."""


def declared(source: str, *, callables: bool) -> set[str]:
    """Return the names that a module declares as callables, or as anything else."""
    found = set[str]()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.AnnAssign) and ("Callable[" in ast.unparse(node.annotation)) is callables:
            target = node.target
            if isinstance(target, ast.Attribute):
                found.add(target.attr)
            elif isinstance(target, ast.Name):
                found.add(target.id)
    return found


def assigned(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and name of each attribute of another object that is set."""
    for node in ast.walk(ast.parse(source)):
        for target in node.targets if isinstance(node, ast.Assign) else ():
            if isinstance(target, ast.Attribute) and ast.unparse(target.value) != "self":
                yield target.lineno, target.attr


def late(path: Path, callbacks: set[str]) -> list[str]:
    """Return what is bound late in a file."""
    is_root = _COMPOSITION in path.as_posix()
    return [
        f"{tree.place(path, line)} {name}"
        for line, name in assigned(path.read_text())
        if name in callbacks or (is_root and name not in _STATE)
    ]


def test_few_attributes_are_set_after_construction() -> None:
    """Whoever reads a constructor has read all that an object works with, but for a stated few."""
    files = list(tree.python_files("platform"))
    texts = [path.read_text() for path in files]
    callbacks, others = (
        set[str]().union(*(declared(text, callables=kind) for text in texts)) for kind in (True, False)
    )
    found = [one for path in files for one in late(path, callbacks - others)]
    assert len({one.rpartition(" ")[2] for one in found}) <= MOST, found


def test_the_check_sees_a_callback_that_is_set_later() -> None:
    """A planted one is found, and a constructor's own is not."""
    source = (
        "class A:\n    def __init__(self):\n        self.on_news: Callable[[], None] = nothing\n\na.b.on_news = f\n"
    )
    assert (declared(source, callables=True), declared(source, callables=False)) == ({"on_news"}, set())
    assert list(assigned(source)) == [(5, "on_news")]
