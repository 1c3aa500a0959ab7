"""One observed platform for all tests that look at it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.observed import Observed
from tests.support.platform import Platform

SETTINGS = {"observe": "true", "scrape_s": "1"}


@pytest.fixture(scope="session")
def observed(homes: Path, shared_settings: dict[str, str]) -> Iterator[Observed]:
    """Yield a platform with SmolLM2 and MiniLM that a real Prometheus reads each second."""
    with Platform(home=homes / "observed", settings={**shared_settings, **SETTINGS}) as running:
        yield Observed(running)
