"""Platforms to be hurt, and the table of what was observed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.conftest import HomeMaker
from tests.support.failures.table import CANARY, FaultTable, leaks, log_folders
from tests.support.platforms.books import Books
from tests.support.platforms.local import Platform
from tests.support.platforms.readings import Fleet
from tests.support.platforms.sharing import adjacent
from tests.support.stores.watched_redis import WatchedRedis

HERE = Path(__file__).parent
REPORT = HERE.parents[2] / "build/faults.md"
LAST = ("test_privacy.py", "test_reckoning.py")
QUICK = {
    "header_timeout_s": "2",
    "body_timeout_s": "3",
    "stream_stall_s": "4",
    "stream_buffer_bytes": "32768",
    "probe_every_s": "3",
    "probe_timeout_s": "12",
    "lease_s": "3",
}
"""Settings that let a fault be noticed in seconds, also on two slow cores."""

BOUNDS = {"max_concurrent": 1000, "requests_per_min": 1_000_000, "spend_per_month": 1_000_000_000}
"""Bounds that refuse nobody here: with them every request of the demo tenant reserves and settles."""

_table = FaultTable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let what reads all logs and all books come last among the tests here, and no platform be idle between files."""
    adjacent(items, HERE, ("platform", "_pair"), LAST)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table, and keep it for the release note."""
    if not _table.rows:
        return
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(_table.markdown())
    terminalreporter.section("faults and their observed effect")
    terminalreporter.write(_table.markdown())


@pytest.fixture(scope="session")
def faults() -> FaultTable:
    return _table


@pytest.fixture(scope="session")
def leaked() -> list[str]:
    """Return the places of prompts found in files that are gone by now."""
    return []


@pytest.fixture(autouse=True)
def _look_for_leaks(request: pytest.FixtureRequest, leaked: list[str]) -> Iterator[None]:
    """Read the logs of a test's own platform before they are removed with it."""
    if "start_platform" not in request.fixturenames:
        yield
        return
    request.getfixturevalue("start_platform")
    yield
    leaked.extend(leaks(log_folders(request.getfixturevalue("homes")), CANARY))


@pytest.fixture(scope="session")
def reckoning() -> list[Books]:
    """Return the agreeing books of every test and module."""
    return []


@pytest.fixture(scope="module")
def _solo_books(platform: Platform, reckoning: list[Books]) -> Iterator[Books]:
    """Yield the books of the session's platform, and look at the end of each module whether they agree."""
    books = Books(platform)
    yield books
    books.balance()
    reckoning.append(books)


@pytest.fixture
def solo(platform: Platform, _solo_books: Books) -> Iterator[Fleet]:
    """Yield the session's platform with idle engines; it has one worker per model."""
    fleet = Fleet(platform=platform)
    fleet.until_idle()
    yield fleet
    fleet.until_idle()


@pytest.fixture(scope="session")
def _pair_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedRedis]:
    """Yield the store that the pair's limits are shared in: what is held there can be seen."""
    with WatchedRedis(tmp_path_factory.mktemp("pair")) as running:
        yield running


@pytest.fixture(scope="session")
def _pair(new_home: HomeMaker, shared_settings: dict[str, str], _pair_redis: WatchedRedis) -> Iterator[Platform]:
    settings = {**shared_settings, **QUICK, "limits_url": _pair_redis.url, "answers_url": _pair_redis.answers_url}
    with Platform(home=new_home("pair"), models="smollm2", workers=2, settings=settings) as running:
        bound(running)
        yield running


def bound(platform: Platform) -> None:
    """Give the demo tenant bounds, so that its requests hold something."""
    platform.act("PATCH", "/tenants/demo/plan", BOUNDS)


@pytest.fixture
def books(_pair: Platform, _pair_redis: WatchedRedis) -> Books:
    """Return the pair's books since the test began."""
    return Books(_pair, _pair_redis)


@pytest.fixture
def pair(_pair: Platform, books: Books, reckoning: list[Books]) -> Iterator[Fleet]:
    """Yield a platform with two idle SmolLM2 workers, restarted if the test before left it broken.

    Afterwards its books must agree: one row for each request, nothing held, engines idle by their own account.
    """
    fleet = Fleet(platform=_pair)
    try:
        fleet.until_ready(2)
        fleet.until_idle()
    except (AssertionError, OSError):
        _pair.kill_all()
        _pair.start()
        fleet.until_ready(2)
    yield fleet
    books.balance()
    reckoning.append(books)
