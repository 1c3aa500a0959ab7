"""One platform for all live cases, with a few tenants, and the table of what was diagnosed."""

import re
from collections.abc import Iterator
from functools import partial

import httpx
import pytest

from tests.integration.conftest import HomeMaker
from tests.support.patience import until
from tests.support.platforms.local import Platform
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
    """Return a caller for each tenant; one of them has twenty times the weight of the others."""
    made: dict[str, Caller] = {}
    for tenant in TENANTS:
        platform.run("tenants", "create", tenant, "--weight", "20" if tenant == "loud" else "1")
        key = re.findall(r"psk_\w+", platform.run("keys", "create", tenant).stdout)[0]
        until("the gateway knows the key", partial(_is_known, platform, key))
        made[tenant] = Caller(url=platform.url, key=key)
    return made


def _is_known(platform: Platform, key: str) -> bool:
    with platform.http(key) as http:
        return http.get("/v1/models").status_code == httpx.codes.OK
