"""The wheel carries everything that the processes read."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support import tree

pytestmark = pytest.mark.integration
READ_ALL = """
import penstock
from penstock.connectors.postgres.migrations import known
from penstock.connectors.redis import answers, limits
from penstock.apps import models, slos
from penstock.contract.written import text
assert known() and slos.load() and models.pins()
print(penstock.__file__)
print(text(), end="")
"""


def test_a_wheel_alone_reads_its_data_and_prints_the_contract(tmp_path: Path) -> None:
    """Finding 3.1: images ended with "this installation lacks slo_specs"; specs, migrations and scripts are all in."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=tree.ROOT, check=True, capture_output=True, timeout=60)
    installed = tmp_path / "installed"
    zipfile.ZipFile(next(tmp_path.glob("*.whl"))).extractall(installed)
    done = subprocess.run(
        [sys.executable, "-c", READ_ALL],
        cwd=tmp_path,
        env={"PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    where, _, contract = done.stdout.partition("\n")
    assert Path(where).is_relative_to(installed)
    assert contract == (tree.ROOT / "infra/contract.json").read_text()
