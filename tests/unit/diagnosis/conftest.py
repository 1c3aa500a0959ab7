"""What the tests of diagnoses look at: a described platform, or a recording of a real one, as a snapshot."""

import pytest

from penstock.apps import slos
from penstock.diagnosis.measure import snapshot_of
from penstock.diagnosis.snapshot import Snapshot
from tests.support.monitoring.measurements import Site, recorded
from tests.support.scenarios.diagnoses import Look


@pytest.fixture(scope="session")
def look() -> Look:
    """Return what makes a snapshot of a described platform, held against the promises that ship; each once."""
    seen: dict[int, tuple[Site, Snapshot]] = {}

    def looked(site: Site) -> Snapshot:
        if id(site) not in seen:
            seen[id(site)] = site, snapshot_of(recorded(site), slos.load().values())
        return seen[id(site)][1]

    return looked
