"""Where decisions are kept: in memory and in a file alike."""

from pathlib import Path

import pytest

from penstock.connectors.records.decisions import DecisionFile
from penstock.control.decisions import DecisionStore
from penstock.domain.fleet.decision import Decided, Decision
from tests.twins.decisions import MemoryDecisions


@pytest.fixture(params=["memory", "file"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> DecisionStore:
    return MemoryDecisions() if request.param == "memory" else DecisionFile(tmp_path / "decisions.jsonl")


def decided(number: int) -> Decided:
    made = Decision(what="start", target=f"v{number}", signal="workers_counted", value="0", objective="1 workers")
    return Decided(at=float(number), decision=made)


def test_the_newest_come_first_and_no_more_than_asked_for(kept: DecisionStore) -> None:
    """Decisions come back as they were, from the last one on."""
    assert kept.newest(10) == ()
    kept.note([decided(1), decided(2)])
    kept.note([decided(3)])
    assert kept.newest(2) == (decided(3), decided(2))
    assert len(kept.newest(10)) == 3


def test_a_bounded_number_is_kept(kept: DecisionStore) -> None:
    """After very many the last ones are there, and the first are not."""
    kept.note([decided(number) for number in range(5000)])
    found = kept.newest(10_000)
    assert found[0] == decided(4999)
    assert len(found) == 2000
