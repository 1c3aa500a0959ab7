"""What the infrastructure's tests share: the shipped config and every stack captured once."""

from pathlib import Path

import pytest

pytest.importorskip("pulumi", reason="the infrastructure has an environment of its own: make infra-setup")

from infra.capture.fleet import capture_fleet
from infra.config.load import load
from infra.config.model import Fleet
from infra.graph.captured import Capture
from tests.infra.unproven import unproven
from tests.infra.written import with_workers

ROOT = Path(__file__).resolve().parents[2]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say at the end what this run could not prove."""
    lines = list(unproven())
    if lines:
        terminalreporter.section("NOT PROVEN ON THIS MACHINE", sep="!", red=True, bold=True)
        for line in lines:
            terminalreporter.line(line, red=True)


@pytest.fixture(scope="session")
def fleet() -> Fleet:
    return load("prod")


@pytest.fixture(scope="session")
def captures(fleet: Fleet) -> tuple[Capture, ...]:
    """Return every stack of the shipped config, captured in order."""
    return capture_fleet(fleet)


@pytest.fixture(scope="session")
def small() -> Fleet:
    return load("dev")


@pytest.fixture(scope="session")
def small_captures(small: Fleet) -> tuple[Capture, ...]:
    """Return every stack of the small environment."""
    return capture_fleet(small)


@pytest.fixture(scope="session")
def by_label(captures: tuple[Capture, ...]) -> dict[str, Capture]:
    return {item.label: item for item in captures}


@pytest.fixture(scope="session")
def clusters(captures: tuple[Capture, ...]) -> tuple[Capture, ...]:
    """Return the captures with the workers that the controller makes of what they ship."""
    return with_workers(captures)


@pytest.fixture
def environments(tmp_path: Path) -> Path:
    """Return a private copy of the shipped environments, to be spoiled."""
    for source in (ROOT / "infra/environments/prod").glob("*.yaml"):
        target = tmp_path / "prod" / source.name
        target.parent.mkdir(exist_ok=True)
        target.write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    return tmp_path
