"""Promises for a generator that shares two cores with what it loads.

What is promised is also what the generator's own lateness is measured by, so promises with room let it run on a busy
machine: the generator is tested, not what they promise.
"""

from pathlib import Path

import pytest
import yaml

from slo.spec import SPECS
from tests.support.clients.loadtest import Patient


@pytest.fixture(scope="session")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Patient:
    """Return the option of promises with room between tokens."""
    return with_room(tmp_path_factory.mktemp("specs"), itl=1.0)


@pytest.fixture(scope="session")
def very_patient(tmp_path_factory: pytest.TempPathFactory) -> Patient:
    """Return the option of promises with room before the first token too."""
    return with_room(tmp_path_factory.mktemp("specs"), itl=3.0, ttft=10.0)


def with_room(folder: Path, **within_s: float) -> Patient:
    """Write the platform's own promises with these bounds in seconds."""
    for path in SPECS.glob("*.yaml"):
        spec = yaml.safe_load(path.read_bytes())
        for indicator in within_s.keys() & spec["objectives"].keys():
            spec["objectives"][indicator]["within_s"] = within_s[indicator]
        (folder / path.name).write_text(yaml.safe_dump(spec))
    return "--objectives", folder
