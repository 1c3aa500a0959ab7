"""The rooms: import contracts hold, and `platform/` stays a folder that can't shadow the standard library."""

import platform
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support import tree

PLATFORM = tree.ROOT / "platform"
PACKAGE = PLATFORM / "penstock"
CONTRACTS = tree.ROOT / "pyproject.toml"


def lint_imports(config: Path, root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--config", config, "--no-cache", "--no-logo"],
        cwd=root,
        env={"PYTHONPATH": str(root), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


def misplaced(folder: Path) -> list[str]:
    """Return what would turn the folder into a package or a place of tests."""
    shadows = [folder / "__init__.py"] if (folder / "__init__.py").exists() else []
    tests = [path for pattern in ("conftest.py", "test_*.py", "*_test.py") for path in folder.rglob(pattern)]
    return [path.relative_to(folder).as_posix() for path in (*shadows, *tests)]


def test_import_contracts_hold() -> None:
    """Every import contract of pyproject.toml is kept."""
    result = lint_imports(CONTRACTS, PLATFORM)
    assert result.returncode == 0, result.stdout


# One planted import per contract, each of which would make a room know what it must not know.
VIOLATIONS = {
    "a gateway that knows the controller": ("gateway/pipeline.py", "import penstock.control.loop"),
    "a domain that knows telemetry": ("domain/errors.py", "import penstock.telemetry.names"),
    "a pipeline that speaks HTTP": ("gateway/pipeline.py", "import starlette"),
    "a loop that speaks HTTP": ("control/loop.py", "import fastapi"),
    "a gate that knows the agent": ("worker/gate/corridor.py", "import penstock.worker.agent.health"),
    "an agent that knows the gate": ("worker/agent/running.py", "import penstock.worker.gate.queueing.admission"),
    "rules that know a process": ("slo/rules.py", "import penstock.gateway.pipeline"),
    "torch outside the engines": ("domain/errors.py", "import torch"),
    "a room that nobody placed": ("helpers/__init__.py", ""),
    "siblings in a cycle": ("telemetry/names.py", "import penstock.telemetry.metrics"),
    "connectors that know each other": ("connectors/alpha/__init__.py", "import penstock.connectors.beta"),
}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the package's source, so that a test may spoil it."""
    root = tmp_path_factory.mktemp("rooms")
    for path in PACKAGE.rglob("*.py"):
        target = root / path.relative_to(PLATFORM)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    for name in ("alpha", "beta"):
        target = root / f"penstock/connectors/{name}/__init__.py"
        target.parent.mkdir()
        target.write_text("")
    return root


def test_the_copy_keeps_the_contracts(copy: Path) -> None:
    """The unspoilt copy passes, so that what fails below fails for its plant alone."""
    result = lint_imports(CONTRACTS, copy)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(("module", "line"), VIOLATIONS.values(), ids=VIOLATIONS.keys())
def test_a_planted_import_breaks_a_contract(copy: Path, module: str, line: str) -> None:
    """The contracts notice an import that a room must not have."""
    path = copy / "penstock" / module
    before = path.read_bytes() if path.exists() else None
    path.parent.mkdir(exist_ok=True)
    try:
        path.write_text(f"{before.decode() if before else ''}\n{line}\n")
        result = lint_imports(CONTRACTS, copy)
    finally:
        path.unlink() if before is None else path.write_bytes(before)
        if before is None:
            path.parent.rmdir()
    assert result.returncode != 0
    assert "BROKEN" in result.stdout


def test_platform_is_a_folder_and_not_a_package() -> None:
    """The folder `platform` holds no __init__.py, no conftest.py and no tests, and the standard module is found."""
    assert misplaced(PLATFORM) == []
    assert platform.system() == "Linux"


@pytest.mark.parametrize("name", ["__init__.py", "conftest.py", "penstock/test_x.py", "penstock/a/conftest.py"])
def test_a_misplaced_file_is_found(tmp_path: Path, name: str) -> None:
    """A file that would shadow or break the standard module is reported."""
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    assert misplaced(tmp_path) == [name]


def placed() -> set[str]:
    """Return the rooms that pyproject.toml places and that exist."""
    contracts = tomllib.loads(CONTRACTS.read_text())["tool"]["importlinter"]["contracts"]
    layers = next(one["layers"] for one in contracts if one["id"] == "rooms")
    return {name for layer in layers for name in re.findall(r"\w+", layer) if (PACKAGE / name).is_dir()}


def told(page: str) -> set[str]:
    """Return the rooms of the platform that the table of rooms has a row for."""
    rows = re.findall(r"^\| (`[^|]+) \|", page, re.MULTILINE)
    paths = [path.removeprefix("platform/penstock/") for row in rows for path in re.findall(r"`([^`]+)`", row)]
    return {path.partition("/")[0] for path in paths} & {path.name for path in PACKAGE.iterdir()}


def drawn(page: str) -> set[str]:
    """Return the rooms in the picture of imports."""
    first = page.partition("## Imports")[2].partition("```")[2].strip().splitlines()[0]
    return set(re.findall(r"\w+", first))


def test_the_page_and_the_contract_name_the_same_rooms() -> None:
    """CONTRIBUTING has a row for each room that pyproject.toml places, and its picture of imports names it."""
    page = (tree.ROOT / "CONTRIBUTING.md").read_text()
    assert told(page) == placed()
    assert placed() - drawn(page) == set()


def test_a_room_without_a_row_is_found() -> None:
    """A page that lacks a room's row is told from one that has it."""
    rows = ("`tls/`", "`platform/penstock/slo/`", "`slo/alerts/`, `views/`", "`adr/`")
    page = "".join(f"| {row} | here | not here |\n" for row in rows)
    assert told(page) == {"tls", "slo", "views"}
    assert drawn("## Imports\n\n```\ncli > tls\n gateway\n```\n") == {"cli", "tls"}
