"""Changes each constant and comparison of the law of scaling, and shows that the tests notice.

``python -m tests.simulation.scaling_mutants [MODULE …]`` prints killed/total and the survivors; it ends with 1 if there
are any.
Only unit tests are asked: the replays show behaviour, not figures.
"""

import ast
import contextlib
import importlib.abc
import importlib.machinery
import os
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
TESTS = [str(tree.ROOT / "tests" / "unit" / room) for room in ("scaling", "control/autoscaler")]
LAW = (
    "constants",
    "law",
    "pace",
    "scale_in",
    "supply",
    "growth",
    "work",
    "stage",
    "reports",
    "gateways",
    "room",
    "bounds",
)
FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}
EQUIVALENT = frozenset({"pace: kept > need flipped"})
"""No input tells them from the law: of equal needs the older one is kept beside the newer, and is forgotten first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    name: str
    module: str
    tree: ast.Module


def mutants(module: str) -> Iterator[Mutant]:
    source = ast.parse((FOLDER / f"{module}.py").read_text())
    for number, node in enumerate(ast.walk(source)):
        if module == "constants" and isinstance(node, ast.Assign | ast.AnnAssign):
            for factor in (0.5, 2.0):
                yield _changed(source, module, number, f"{ast.unparse(node)[:40]} times {factor:g}", factor)
        elif module != "constants" and isinstance(node, ast.Compare) and type(node.ops[0]) in FLIPPED:
            yield _changed(source, module, number, f"{ast.unparse(node)[:60]} flipped", 0.0)


def _changed(source: ast.Module, module: str, number: int, name: str, factor: float) -> Mutant:
    made = deepcopy(source)
    node = list(ast.walk(made))[number]
    if isinstance(node, ast.Compare):
        node.ops[0] = FLIPPED[type(node.ops[0])]()
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        value = ast.literal_eval(ast.unparse(node.value or node))
        node.value = ast.Constant(type(value)(value * factor))
    return Mutant(name=f"{module}: {name}", module=module, tree=ast.fix_missing_locations(made))


class _Loader(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loads one module of the law from a changed tree."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def find_spec(self, name: str, *_: object) -> importlib.machinery.ModuleSpec | None:
        wanted = f"{ROOM}.{self._mutant.module}"
        return importlib.machinery.ModuleSpec(name, self) if name == wanted else None

    def exec_module(self, module: types.ModuleType) -> None:
        exec(compile(self._mutant.tree, f"<{self._mutant.name}>", "exec"), module.__dict__)  # noqa: S102


def is_killed(mutant: Mutant) -> bool:
    """Run the unit tests on a mutant in a child of this process, which has loaded all but the law."""
    child = os.fork()
    if child == 0:
        sys.meta_path.insert(0, _Loader(mutant))
        with (
            Path(os.devnull).open("w") as nowhere,
            contextlib.redirect_stdout(nowhere),
            contextlib.redirect_stderr(nowhere),
        ):
            status = pytest.main(["-x", "-q", "-p", "no:cacheprovider", *TESTS])
        os._exit(int(status))
    _, ended = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(ended) == pytest.ExitCode.TESTS_FAILED


def main() -> int:
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
