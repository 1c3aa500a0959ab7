"""What tests of real processes share: one engine parent and one set of converted models for the whole session."""

import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.engines.zygote import Zygote
from tests.support.platforms.last_use import Fixtures, end, last_uses
from tests.support.platforms.local import Platform

CACHE = Path(__file__).resolve().parents[2] / ".penstock/cache"
DEMO_CACHE, COMPILE_CACHE = CACHE / "demo", CACHE / "compiled"
PATIENCE_S = 600
PlatformMaker = Callable[..., Platform]
SHARERS = ("contract", "isolation", "serve")
"""Folders of tests of the session's platform alone: one after the other, so that it is idle for none between them."""
ENDED_EARLY = ("platform", "_pair", "classic_platform", "_fleet", "_worker", "unhurried", "encoder")
"""What computes while nobody asks for it."""
LAST_USES = pytest.StashKey[dict[str, Fixtures]]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the first test of a session the time that a whole platform takes to start on a busy machine.

    What clients of others leave to the collector shows up in whichever test runs then, so it fails none of them here.
    """
    items.sort(key=lambda item: item.path.parent in {Path(__file__).parent / name for name in SHARERS})
    for item in items:
        if Path(__file__).parent not in item.path.parents:
            continue
        item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(PATIENCE_S))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Look up who is the last to ask for what the session shares."""
    session.stash[LAST_USES] = last_uses(session.items, ENDED_EARLY)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """End what nobody asks for any more."""
    result = yield
    end(item, item.session.stash[LAST_USES].get(item.nodeid, []))
    return result


@pytest.fixture(scope="session")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    """Yield a pre-imported parent that engines of all platforms are forked from: seconds instead of tens."""
    with Zygote(tmp_path_factory.mktemp("zygote"), COMPILE_CACHE) as running:
        yield running


@pytest.fixture(scope="session")
def shared_settings(zygote: Zygote) -> dict[str, str]:
    """Return settings that let a platform start in seconds."""
    return {
        "demo_cache": str(DEMO_CACHE),
        "compile_cache": str(COMPILE_CACHE),
        "zygote_socket": str(zygote.socket),
        "engine_zygote": "on",
        "probe_every_s": "6",  # a step of a real engine each: those of all idle platforms together fill two slow cores
    }


@pytest.fixture(scope="session")
def homes() -> Iterator[Path]:
    """Yield a folder for homes. Not pytest's own: that is closed to the account of a Postgres that root starts."""
    with tempfile.TemporaryDirectory(prefix="penstock-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def platform(homes: Path, shared_settings: dict[str, str]) -> Iterator[Platform]:
    """Yield the session's platform: SmolLM2 and MiniLM with one worker each. Tests leave it as they found it."""
    with Platform(home=homes / "platform", settings=shared_settings) as running:
        yield running


@pytest.fixture
def start_platform(homes: Path, shared_settings: dict[str, str]) -> Iterator[PlatformMaker]:
    """Return a starter of platforms of the test's own: ``start_platform(workers=2, tick_s="0.2")``."""
    with ExitStack() as running, tempfile.TemporaryDirectory(dir=homes, ignore_cleanup_errors=True) as folder:

        def start(name: str = "own", *, models: str = "smollm2", workers: int = 1, **settings: str) -> Platform:
            own = Platform(
                home=Path(folder) / name, models=models, workers=workers, settings={**shared_settings, **settings}
            )
            return running.enter_context(own)

        yield start


@pytest.fixture(autouse=True)
def _logs_of_a_failure(request: pytest.FixtureRequest) -> Iterator[None]:
    """Print the platform's logs where a test that uses it fails."""
    failed_before = request.session.testsfailed
    yield
    if request.session.testsfailed > failed_before:
        for name in {"platform", "_pair"} & set(request.fixturenames):
            sys.stdout.write(request.getfixturevalue(name).logs())
