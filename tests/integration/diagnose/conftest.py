"""One platform for the cases of drills, with a few tenants, and the table of what was diagnosed."""

from collections.abc import Iterator

import pytest

from tests.integration.conftest import HomeMaker
from tests.support.platforms.local import Platform
from tests.support.platforms.tenants import key_of
from tests.support.scenarios.pressure import Caller

TENANTS = ("one", "two", "three", "loud", "quiet")
SETTINGS = {"stream_buffer_bytes": "32768", "probe_every_s": "1"}
"""Slow readers are felt soon, and lost engines noticed."""

_rows: list[tuple[str, str]] = []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what each live case was diagnosed as."""
    if _rows:
        right = sum(1 for wanted, found in _rows if wanted == found)
        terminalreporter.section(f"live diagnoses: {right} of {len(_rows)} right")
        for wanted, found in _rows:
            terminalreporter.write_line(f"{wanted}: {found}")


@pytest.fixture(scope="session")
def table() -> list[tuple[str, str]]:
    """Return the rows: what was brought about, and what was diagnosed."""
    return _rows


@pytest.fixture(scope="module")
def platform(new_home: HomeMaker, shared_settings: dict[str, str]) -> Iterator[Platform]:
    with Platform(home=new_home("diagnose"), models="smollm2", settings={**shared_settings, **SETTINGS}) as running:
        yield running


@pytest.fixture(scope="module")
def callers(platform: Platform) -> dict[str, Caller]:
    return callers_of(platform)


def callers_of(platform: Platform) -> dict[str, Caller]:
    """Return a caller for each tenant; one of them has twenty times the weight of the others."""
    weights = {tenant: 20 if tenant == "loud" else 1 for tenant in TENANTS}
    keys = {tenant: key_of(platform, tenant, weight=weight) for tenant, weight in weights.items()}
    return {tenant: Caller(url=platform.url, key=key) for tenant, key in keys.items()}
