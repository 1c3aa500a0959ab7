"""`python -m tests.infra.mutants [FIRST LAST]`: one mistake after the other in a copy of the tree, and who notices it.

Tests must pass without a mistake before they count. Then each row's own tests run, and where these notice nothing, all
the others; a row that no test notices has survived, and ends the command with 1. Golden pages are left out: they change
with every edit, and so prove nothing of one. The working tree is only read.
"""

import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.infra.mutants.proofs import WHOLE, copied, noticed

SOUND = set[str]()
"""Tests that passed without a mistake."""
TABLE = Path(__file__).with_name("table.yaml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One mistake: whose it is, what stands once in a file, what somebody writes instead, and who could see it."""

    source: str
    file: str
    old: str
    new: str
    does: str
    tests: tuple[str, ...]


def rows() -> list[Row]:
    """Read the table. Raises `ValueError` where a row's text does not stand exactly once in its file."""
    found = []
    for told in yaml.safe_load(TABLE.read_text(encoding="utf-8")):
        row = Row(source=told.pop("from"), tests=tuple(told.pop("tests")), **told)
        if Path(row.file).read_text(encoding="utf-8").count(row.old) != 1 or row.old == row.new:
            raise ValueError(f"{row.file}: {row.old!r} does not stand there once; correct the table")
        found.append(row)
    return found


def blind(row: Row) -> tuple[str, ...]:
    """Name the tests that would notice the text and not the mistake: they spoil copies of the shipped environments."""
    return ("config",) if row.file.startswith("infra/environments/") else ()


def killer(tree: Path, row: Row) -> str:
    """Name the first test that notices the mistake; empty where it survives."""
    others = [name for name in WHOLE if name not in (*row.tests, *blind(row))]
    by = spoiled(tree, row, row.tests)
    if not by:
        sound(tree, others)
        by = spoiled(tree, row, others)
    return by


def spoiled(tree: Path, row: Row, tests: Sequence[str]) -> str:
    """Name the first of these tests that notices the mistake."""
    file = tree / row.file
    whole = file.read_text(encoding="utf-8")
    file.write_text(whole.replace(row.old, row.new), encoding="utf-8")
    try:
        return noticed(tree, tests)
    finally:
        file.write_text(whole, encoding="utf-8")


def sound(tree: Path, tests: Iterable[str]) -> None:
    """End the command where one of these tests fails without any mistake: its failure would prove nothing."""
    new = sorted({*tests} - SOUND)
    broken = noticed(tree, new) if new else ""
    if broken:
        sys.exit(f"fails without any mistake: {broken}")
    SOUND.update(new)


def main() -> int:
    """Print a line a row, and the sums."""
    table = list(enumerate(rows(), start=1))
    chosen = table[int(sys.argv[1]) - 1 : int(sys.argv[2])] if sys.argv[1:] else table
    killed, seen = Counter[str](), Counter[str]()
    with tempfile.TemporaryDirectory(prefix="penstock-mutants-") as folder:
        tree = copied(Path(folder))
        sound(tree, {name for _, row in chosen for name in row.tests})
        for number, row in chosen:
            by = killer(tree, row)
            seen[row.source] += 1
            killed[row.source] += bool(by)
            print(f"{number:2} {row.source:8} {row.does}: {row.file}\n   {by or 'SURVIVED'}", flush=True)
    for source, count in seen.items():
        print(f"{source}: {killed[source]} of {count} killed")
    print(f"{killed.total()} of {seen.total()} killed")
    return 1 if killed != seen else 0


if __name__ == "__main__":
    sys.exit(main())
