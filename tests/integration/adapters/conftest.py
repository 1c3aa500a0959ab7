"""What these tests share: a base that takes adapters, a few of them, and a worker of that base."""

import secrets
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from penstock.settings import Settings
from penstock.supervision.files import write_private
from tests.support.workers.process import QUICK, WorkerMaker, WorkerProcess
from tests.support.workers.with_adapters import JSON_GOLDEN, PIRATE_GOLDEN, Site


@dataclass(frozen=True, kw_only=True)
class Known:
    """Adapters of the base, by what they do."""

    json: str
    pirate: str
    others: tuple[str, ...]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, shared_settings: dict[str, str]) -> Site:
    """Return a home with a base that has two slots."""
    home = tmp_path_factory.mktemp("adapters")
    write_private(home / "platform.key", secrets.token_hex(32))
    found = Site(settings=Settings(home=home, demo_cache=shared_settings["demo_cache"]), work=home / "made")
    found.publish_base()
    return found


@pytest.fixture(scope="session")
def known(site: Site) -> Known:
    """Return two trained adapters, and two more like them."""
    return Known(
        json=site.publish("triage", site.trained("triage"), [JSON_GOLDEN]),
        pirate=site.publish("pirate", site.trained("pirate"), [PIRATE_GOLDEN]),
        others=tuple(
            site.publish(f"{kind}-{number}", site.like(kind, f"{kind}-{number}"), [golden])
            for number, (kind, golden) in enumerate([("triage", JSON_GOLDEN), ("pirate", PIRATE_GOLDEN)])
        ),
    )


@pytest.fixture
def start_worker(site: Site, shared_settings: dict[str, str]) -> Iterator[WorkerMaker]:
    """Return a starter of workers of the test's own."""
    assert site.base is not None
    with ExitStack() as running:

        def start(version: str = "", **settings: str) -> WorkerProcess:
            assert site.base is not None
            merged = {**shared_settings, **QUICK, "probe_timeout_s": "20", "probe_every_s": "5", **settings}
            return running.enter_context(
                WorkerProcess(
                    home=site.settings.home,
                    version=version or site.base.id,
                    id=f"w{secrets.token_hex(3)}",
                    settings=merged,
                )
            )

        yield start


@pytest.fixture(scope="session")
def _worker(site: Site, shared_settings: dict[str, str]) -> Iterator[WorkerProcess]:
    assert site.base is not None
    settings = {**shared_settings, **QUICK, "probe_timeout_s": "20", "probe_every_s": "5"}
    with WorkerProcess(home=site.settings.home, version=site.base.id, id="shared", settings=settings) as running:
        yield running.ready()


@pytest.fixture
def worker(_worker: WorkerProcess) -> WorkerProcess:
    """Return the ready worker of the base that all tests ask; the last one kills it."""
    return _worker
