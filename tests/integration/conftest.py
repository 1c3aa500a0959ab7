"""What tests of real processes share: one engine parent and one set of converted models for the whole session."""

import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest

from tests.support.engines.zygote import Zygote
from tests.support.platforms.local import Platform
from tests.support.platforms.observed import SETTINGS, Observed
from tests.support.platforms.sharing import Fixtures, end, last_uses, running

CACHE = Path(__file__).resolve().parents[2] / ".penstock/cache"
DEMO_CACHE, COMPILE_CACHE = CACHE / "demo", CACHE / "compiled"
PATIENCE_S = 600
PlatformMaker = Callable[..., Platform]
HomeMaker = Callable[[str], Path]
SHARERS = ("observe", "load", "diagnose", "contract", "isolation", "serve")
"""Folders of tests of a platform of the session, in their order: it is idle for none between them."""
ENDED_EARLY = (
    *("platform", "_pair", "classic_platform", "_fleet", "_worker", "unhurried", "encoder"),
    *("observed", "crowded", "stage", "jobs"),
)
"""What computes while nobody asks for it."""
KEPT = ("homes", "zygote")
"""What stays after a failure: no request reaches it."""
REPLACED_AT_MOST = 12
"""Failures of one session after which shared platforms are replaced; more are no accident of one platform."""
LAST_USES = pytest.StashKey[dict[str, Fixtures]]()
FAILED = pytest.StashKey[bool]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the first test of a session the time that a whole platform takes to start on a busy machine.

    What clients of others leave to the collector shows up in whichever test runs then, so it fails none of them here.
    """
    items.sort(key=_order)
    for item in items:
        if Path(__file__).parent not in item.path.parents:
            continue
        item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(PATIENCE_S))


def _order(item: pytest.Item) -> int:
    folders = [Path(__file__).parent / name for name in SHARERS]
    return folders.index(item.path.parent) + 1 if item.path.parent in folders else 0


def pytest_collection_finish(session: pytest.Session) -> None:
    """Look up the last use of each shared fixture."""
    session.stash[LAST_USES] = last_uses(session.items, ENDED_EARLY)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """End shared platforms after their last use, and after a failure: the neighbours of a failed test get new ones."""
    try:
        return (yield)
    except BaseException:
        item.stash[FAILED] = True
        raise
    finally:
        if item.stash.get(FAILED, False) and item.session.testsfailed <= REPLACED_AT_MOST:
            end(item, running(item, "tests/integration", KEPT))
        end(item, item.session.stash[LAST_USES].get(item.nodeid, []))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember a failure until the test's teardown."""
    report = yield
    item.stash[FAILED] = item.stash.get(FAILED, False) or report.failed
    return report


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
def new_home(homes: Path) -> HomeMaker:
    """Return a maker of homes: a platform in place of a broken one starts from an empty folder."""

    def made(name: str) -> Path:
        paths = (homes / f"{number}-{name}" for number in count(1))
        return next(path for path in paths if not path.exists())

    return made


@pytest.fixture(scope="session")
def platform(new_home: HomeMaker, shared_settings: dict[str, str]) -> Iterator[Platform]:
    """Yield the session's platform: SmolLM2 and MiniLM with one worker each. Tests leave it as they found it."""
    with Platform(home=new_home("platform"), settings=shared_settings) as running:
        yield running


@pytest.fixture(scope="session")
def observed(new_home: HomeMaker, shared_settings: dict[str, str]) -> Iterator[Observed]:
    """Yield a platform with SmolLM2 and MiniLM that a real Prometheus reads each second."""
    with Platform(home=new_home("observed"), settings={**shared_settings, **SETTINGS}) as running:
        yield Observed(running)


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
    """Print the platform's logs if a test that uses it fails."""
    yield
    if request.node.stash.get(FAILED, False):
        for name in {"platform", "_pair"} & set(request.fixturenames):
            sys.stdout.write(request.getfixturevalue(name).logs())
