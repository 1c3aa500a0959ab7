"""The places at which a process judges by time: raw timers of asyncio, and comparisons with a reading of a clock.

Each stands in ``lateness.yaml`` under how this process's own lag is left out there, or why it does no harm. A limit by
``penstock.lateness`` (``timeout``, ``Timer``) is told from asyncio's own, so that neither can stand in for the other.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import yaml

from tests.support import tree

PACKAGE = tree.ROOT / "platform/penstock"
WATCHED = """
apps capacity connectors control domain fairness gateway intake judging local scaling settings supervision telemetry
"""
ROOMS = (*WATCHED.split(), "tls", "worker")
FILE = Path(__file__).with_name("lateness.yaml")

_TIMERS = {"timeout", "timeout_at", "wait_for", "call_later", "call_at"}
_AWAKE = {"timeout", "Timer"}
_READINGS = {"monotonic", "time", "now", "_now", "seconds"}
_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def listed() -> dict[str, str]:
    """Return the group of each place in the list."""
    groups = yaml.safe_load(FILE.read_text())
    return {place: group for group, told in groups.items() for place in told["places"]}


@cache
def found() -> dict[str, bool]:
    """Return the places in the code, as ``room/file.py::Class.function``, and whether each is limited by our room."""
    files = [path for room in ROOMS for path in sorted((PACKAGE / room).rglob("*.py"))]
    return {
        f"{path.relative_to(PACKAGE)}::{name}": is_awake
        for path in files
        for name, is_awake in places(path.read_text())
    }


def places(source: str) -> Iterator[tuple[str, bool]]:
    """Yield the functions of a source that judge by time, and whether nothing but ``penstock.lateness`` does it."""
    yield from _inside(ast.parse(source), ())


def _inside(node: ast.AST, outer: tuple[str, ...]) -> Iterator[tuple[str, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _Function | ast.ClassDef):
            name = (*outer, child.name)
            if isinstance(child, _Function) and (_judges(child) or _is_limited(child)):
                yield ".".join(name), not _judges(child)
            yield from _inside(child, name)
        else:
            yield from _inside(child, outer)


def _is_limited(function: _Function) -> bool:
    calls = (node.func for node in _own(function) if isinstance(node, ast.Call))
    return any(isinstance(one, ast.Name) and one.id in _AWAKE for one in calls)


def _judges(function: _Function) -> bool:
    own = list(_own(function))
    times = {"now"}
    for node in own:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        value = getattr(node, "value", None)
        if isinstance(node, ast.Assign | ast.NamedExpr) and value is not None and _tells_time(value, times):
            times |= {part.id for one in targets if one for part in ast.walk(one) if isinstance(part, ast.Name)}
    return any(_is_timer(node) or _is_comparison(node, times) for node in own)


def _own(function: _Function) -> Iterator[ast.AST]:
    """Yield a function's nodes without those of functions inside; a lambda is its own."""
    waiting: list[ast.AST] = list(ast.iter_child_nodes(function))
    while waiting:
        node = waiting.pop(0)
        if not isinstance(node, _Function | ast.ClassDef):
            yield node
            waiting.extend(ast.iter_child_nodes(node))


def _is_timer(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    has_limit = any(one.arg == "timeout" for one in node.keywords)
    return node.func.attr in _TIMERS or (node.func.attr == "wait" and has_limit)


def _is_comparison(node: ast.AST, times: set[str]) -> bool:
    if not isinstance(node, ast.Compare) or not all(isinstance(op, _ORDERS) for op in node.ops):
        return False
    return any(_tells_time(one, times) for one in (node.left, *node.comparators))


def _tells_time(node: ast.AST, times: set[str]) -> bool:
    """Tell whether an expression is computed from a reading of a clock."""
    if isinstance(node, ast.Attribute):
        return False  # a field of something called ``now``
    if isinstance(node, ast.Name):
        return node.id in times
    if isinstance(node, ast.Call):
        is_reading = isinstance(node.func, ast.Attribute) and node.func.attr in _READINGS and not node.args
        is_number = isinstance(node.func, ast.Name) and node.func.id in {"max", "min", "abs", "round"}
        return is_reading or (is_number and any(_tells_time(one, times) for one in node.args))
    if isinstance(node, ast.BinOp):
        return _tells_time(node.left, times) or _tells_time(node.right, times)
    if isinstance(node, ast.NamedExpr):
        return _tells_time(node.value, times)
    return isinstance(node, ast.Tuple) and any(_tells_time(one, times) for one in node.elts)
