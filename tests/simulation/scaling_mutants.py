"""Changes each constant, comparison and bound of the law of scaling, and shows that the tests notice.

``python -m tests.simulation.scaling_mutants [MODULE …]`` prints killed/total and the survivors; it ends with 1 if there
are any.
Only unit tests are asked: the replays show behaviour, not figures. This process runs them once unchanged, so that the
child of each mutant has loaded everything and changes code and constants in place: half a second of CPU.
"""

import ast
import contextlib
import os
import signal
import sys
import types
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import tree

ROOM = "penstock.scaling"
FOLDER = tree.ROOT / "platform" / "penstock" / "scaling"
ROOMS = tuple(tree.ROOT / "tests" / "unit" / room for room in ("scaling", "control/autoscaler"))
IMPORTERS = ("penstock.", "tests.")
LAW = tuple(sorted(path.stem for path in FOLDER.glob("[a-z]*.py")))
FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}
SWAPPED = {"min": "max", "max": "min"}
EQUIVALENT = frozenset(
    {
        "pace: kept > need flipped",
        "bounds: _MINUTE_S = 60.0 times 0.5",
        "reports: one.report.began < report.began flipped",
    }
)
"""No input tells them from the law: of equal needs the older one is kept beside the newer, and is forgotten first; cron
lines fire at whole minutes; two processes of one name began at different times, else they are one.
"""
UNTOLD = 9
"""Exit code of a child whose tests did not run."""
LONGEST_S = 300
"""Seconds after which a mutant that does not end is noticed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    name: str
    module: str
    tree: ast.Module


def mutants(module: str) -> Iterator[Mutant]:
    source = ast.parse((FOLDER / f"{module}.py").read_text())
    for number, node in enumerate(ast.walk(source)):
        says = ast.unparse(node)[:60] if isinstance(node, ast.expr | ast.stmt) else ""
        if isinstance(node, ast.Assign | ast.AnnAssign) and _constant(node) is not None and node in source.body:
            for factor in (0.5, 2.0):
                yield _changed(source, module, number, f"{says} times {factor:g}", factor)
        elif isinstance(node, ast.Compare) and type(node.ops[0]) in FLIPPED:
            yield _changed(source, module, number, f"{says} flipped")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in SWAPPED:
            yield _changed(source, module, number, f"{says} swapped")


def _constant(node: ast.Assign | ast.AnnAssign) -> float | None:
    """Return the number that a statement assigns; None if it is no number."""
    with contextlib.suppress(ValueError):
        value = ast.literal_eval(node.value or ast.Constant(None))
        return value if isinstance(value, int | float) else None
    return None


def _changed(source: ast.Module, module: str, number: int, name: str, factor: float = 1.0) -> Mutant:
    made = deepcopy(source)
    node = list(ast.walk(made))[number]
    if isinstance(node, ast.Compare):
        node.ops[0] = FLIPPED[type(node.ops[0])]()
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        node.func.id = SWAPPED[node.func.id]
    elif isinstance(node, ast.Assign | ast.AnnAssign) and (value := _constant(node)) is not None:
        node.value = ast.Constant(type(value)(value * factor))
    return Mutant(name=f"{module}: {name}", module=module, tree=ast.fix_missing_locations(made))


def _apply(mutant: Mutant) -> None:
    """Give the loaded law the code and the constants of a mutant."""
    name = f"{ROOM}.{mutant.module}"
    made = types.ModuleType(name)
    exec(compile(mutant.tree, f"<{mutant.name}>", "exec"), made.__dict__)  # noqa: S102
    changed = dict(functions(made))
    for key, function in functions(sys.modules[name]):
        function.__code__ = changed[key].__code__
    for key, value in vars(made).items():
        if isinstance(value, int | float) and not key.startswith("__"):
            for module in [one for path, one in sys.modules.items() if path.startswith(IMPORTERS)]:
                if key in vars(module):
                    setattr(module, key, value)


def functions(module: types.ModuleType) -> Iterator[tuple[str, types.FunctionType]]:
    """Yield the functions and methods that a module defines; caches of their results are emptied."""
    classes = [one for one in vars(module).values() if isinstance(one, type) and one.__module__ == module.__name__]
    scopes: list[types.ModuleType | type] = [module, *classes]
    for scope in scopes:
        for key, one in vars(scope).items():
            if hasattr(one, "cache_clear"):
                one.cache_clear()
            found = one.fget if isinstance(one, property) else getattr(one, "__wrapped__", one)
            if isinstance(found, types.FunctionType) and found.__module__ == module.__name__:
                yield f"{scope.__name__}.{key}", found


def passes(*tests: Path) -> bool:
    with (
        Path(os.devnull).open("w") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        status = pytest.main(["-x", "-q", "-p", "no:cacheprovider", *map(str, tests)])
    if status in {pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.USAGE_ERROR}:
        os._exit(UNTOLD)
    return status == pytest.ExitCode.OK


def is_killed(mutant: Mutant) -> bool:
    """Run the unit tests on a mutant in a child of this process, those named like its module first."""
    child = os.fork()
    if child == 0:
        _apply(mutant)
        signal.alarm(LONGEST_S)
        own = [one for room in ROOMS for one in room.glob(f"test_{mutant.module}.py")]
        os._exit(0 if all(passes(one) for one in (*own, *ROOMS)) else 1)
    _, ended = os.waitpid(child, 0)
    if (code := os.waitstatus_to_exitcode(ended)) == UNTOLD:
        raise SystemExit(f"pytest did not run for {mutant.name}")
    return code != 0


def main() -> int:
    if not passes(*ROOMS):
        raise SystemExit("the tests fail without a mutant")
    found = [one for module in sys.argv[1:] or LAW for one in mutants(module) if one.name not in EQUIVALENT]
    alive = []
    for one in found:
        if not is_killed(one):
            alive.append(one.name)
            print(f"survives: {one.name}", flush=True)
    print(f"mutants killed: {len(found) - len(alive)} of {len(found)}")
    return int(bool(alive))


if __name__ == "__main__":
    sys.exit(main())
