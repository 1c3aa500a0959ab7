"""The projects are thin, the pack ships the list that is tested, the folders keep apart, the images are lean."""

import ast
import re
from pathlib import Path

import pytest
import yaml
from pulumi_policy import EnforcementLevel

from infra.config.kinds import StackKind
from infra.config.load import load
from infra.policy.crossguard import policies
from infra.policy.registry import INVARIANTS

ROOT = Path(__file__).resolve().parents[2]
INFRA = ROOT / "infra"
MAX_MAIN_LINES = 40
IMAGES = ROOT / "platform/images"


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {item.name.split(".")[0] for item in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").split(".")[0])
    return found


@pytest.mark.parametrize("kind", list(StackKind))
def test_a_project_is_thin(kind: StackKind) -> None:
    """Each program's entry only calls its stack, and its project forbids default providers."""
    folder = INFRA / "projects" / kind
    assert len((folder / "__main__.py").read_text(encoding="utf-8").splitlines()) <= MAX_MAIN_LINES
    project = yaml.safe_load((folder / "Pulumi.yaml").read_text(encoding="utf-8"))
    assert project["name"] == f"penstock-{kind}"
    assert project["config"]["pulumi:disable-default-providers"]["value"] == ["*"]


def test_the_pack_ships_every_invariant() -> None:
    """The policies of the pack are the invariants, all mandatory, by the same names."""
    assert [policy.name for policy in policies()] == [rule.id for rule in INVARIANTS]
    assert {policy.enforcement_level for policy in policies()} == {EnforcementLevel.MANDATORY}


def test_infra_stands_alone() -> None:
    """No module of the infrastructure imports the platform, and the other way round."""
    assert [path for path in INFRA.rglob("*.py") if "penstock" in imports(path)] == []
    assert [path for path in (ROOT / "platform/penstock").rglob("*.py") if "infra" in imports(path)] == []


def test_config_and_catalogue_make_no_resources() -> None:
    """Config and catalogue know nothing of Pulumi."""
    for folder in ("config", "catalogue"):
        assert [path for path in (INFRA / folder).glob("*.py") if {"pulumi", "pulumi_aws"} & imports(path)] == []


def test_what_runs_at_an_update_imports_no_proof() -> None:
    """Programs and policy pack import nothing of the capture: a deployment runs no test's code."""
    folders = ("catalogue", "components", "config", "estimate", "graph", "kube", "policy", "projects", "stacks")
    command = INFRA / "estimate/__main__.py"  # prints the month, and captures for it
    modules = [path for folder in folders for path in (INFRA / folder).rglob("*.py") if path != command]
    assert len(modules) > 60
    assert [path for path in modules if "infra.capture" in path.read_text(encoding="utf-8")] == []


def test_an_image_is_lean() -> None:
    """The Dockerfile takes its base by digest, installs by the one script, drops root and never adds a remote file."""
    content = (IMAGES / "Dockerfile").read_text(encoding="utf-8")
    assert re.findall(r"^FROM (?!\$\{BASE\})", content, re.MULTILINE) == []
    assert re.findall(r"^ARG BASE=", content, re.MULTILINE) == []
    assert "pip" not in content
    assert re.search(r"^USER 10001:10001$", content, re.MULTILINE)
    assert not re.search(r"^ADD |:latest|curl |sudo ", content, re.MULTILINE)


def test_every_image_is_made_of_locks_with_hashes() -> None:
    """Each image that a deployment names is one that the script can make, of locks that are in the repository."""
    content = (IMAGES / "install").read_text(encoding="utf-8")
    assert "--require-hashes" in content
    made = {
        name.strip(): lists.split()
        for names, lists in re.findall(r"^  ([\w |-]+)\) lists=\(([\w -]+)\)", content, re.MULTILINE)
        for name in names.split("|")
    }
    assert set(load("prod").environment.images) <= set(made)
    locks = {lock for lists in made.values() for lock in lists}
    assert [lock for lock in locks if not (ROOT / f"requirements/{lock}.lock").exists()] == []
