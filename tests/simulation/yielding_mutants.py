"""Changes each number, comparison, bound and constant of how batch work yields, and shows that the tests notice.

``python -m tests.simulation.yielding_mutants`` prints killed/total and the survivors; it ends with 1 if there are any.
Only unit tests are asked. A child of this process changes code in place, like ``scaling_mutants``.
"""

import ast
import importlib
import math
import os
import signal
import sys
import types
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

from tests.simulation.scaling_mutants import FLIPPED, LONGEST_S, SWAPPED, functions, passes
from tests.support import tree

MODULES = {
    "penstock.worker.gate.queueing.yielding": "unit/worker/gate/queueing/test_yielding.py",
    "penstock.worker.engines.standstill": "unit/worker/engines/test_standstill.py",
}
EQUIVALENT = frozenset[str]()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    name: str
    module: str
    tree: ast.Module | None = None
    constant: str = ""
    factor: float = 1.0


def mutants(module: str) -> Iterator[Mutant]:
    loaded = importlib.import_module(module)
    for name, value in vars(loaded).items():
        if name.isupper() and type(value) in (int, float) and math.isfinite(value):
            for factor in (0.5, 2.0):
                yield Mutant(name=f"{name} times {factor:g}", module=module, constant=name, factor=factor)
    source = ast.parse(Path(str(loaded.__file__)).read_text())
    for number, node in enumerate(ast.walk(source)):
        says = ast.unparse(node)[:60] if isinstance(node, ast.expr) else ""
        if isinstance(node, ast.Compare) and type(node.ops[0]) in FLIPPED:
            yield _changed(source, module, number, f"line {node.lineno}: {says} flipped")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in SWAPPED:
            yield _changed(source, module, number, f"line {node.lineno}: {says} swapped")
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float) and _is_in_code(source, node):
            yield _changed(source, module, number, f"line {node.lineno}: {says} and one more")


def _is_in_code(source: ast.Module, node: ast.Constant) -> bool:
    bodies = [one for one in ast.walk(source) if isinstance(one, ast.FunctionDef)]
    return any(node in ast.walk(statement) for body in bodies for statement in body.body)


def _changed(source: ast.Module, module: str, number: int, name: str) -> Mutant:
    made = deepcopy(source)
    node = list(ast.walk(made))[number]
    if isinstance(node, ast.Compare):
        node.ops[0] = FLIPPED[type(node.ops[0])]()
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        node.func.id = SWAPPED[node.func.id]
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        node.value += 1
    return Mutant(name=name, module=module, tree=ast.fix_missing_locations(made))


def _apply(mutant: Mutant) -> None:
    loaded = sys.modules[mutant.module]
    if mutant.tree is None:
        setattr(loaded, mutant.constant, getattr(loaded, mutant.constant) * mutant.factor)
        return
    made = types.ModuleType(mutant.module)
    exec(compile(mutant.tree, f"<{mutant.name}>", "exec"), made.__dict__)  # noqa: S102
    changed = dict(functions(made))
    for key, function in functions(loaded):
        function.__code__ = changed[key].__code__


def is_killed(mutant: Mutant) -> bool:
    child = os.fork()
    if child == 0:
        _apply(mutant)
        signal.alarm(LONGEST_S)
        os._exit(0 if passes(tree.ROOT / "tests" / MODULES[mutant.module]) else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0


def main() -> int:
    if not all(passes(tree.ROOT / "tests" / test) for test in MODULES.values()):
        raise SystemExit("the tests fail without a mutant")
    found = [one for module in MODULES for one in mutants(module) if one.name not in EQUIVALENT]
    alive = [one.name for one in found if not is_killed(one)]
    for name in alive:
        print(f"survives: {name}")
    print(f"mutants killed: {len(found) - len(alive)} of {len(found)}")
    return int(bool(alive))


if __name__ == "__main__":
    sys.exit(main())
