"""What the tests of worker processes share: a home with signed versions, and a running worker."""

import asyncio
import secrets
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.apps import models, stores
from penstock.packaging import demo_models
from penstock.packaging.demo import measured
from penstock.packaging.packing import Choices, Publishing, describe, publish
from penstock.settings import Settings
from penstock.supervision.files import write_private
from tests.support.patience import patient
from tests.support.workers.process import QUICK, Publisher, WorkerMaker, WorkerProcess

UNHURRIED = {"probe_timeout_s": "60", "probe_every_s": "5", "heartbeat_s": "0.2", "drain_grace_s": "60"}


@pytest.fixture(scope="session")
def worker_settings(tmp_path_factory: pytest.TempPathFactory, shared_settings: dict[str, str]) -> Settings:
    """Return the settings of a home that has a platform key and the demo versions in its store."""
    home = tmp_path_factory.mktemp("workers")
    write_private(home / "platform.key", secrets.token_hex(32))
    return Settings(home=home, demo_cache=shared_settings["demo_cache"])


@pytest.fixture(scope="session")
def versions(worker_settings: Settings) -> dict[str, str]:
    """Return the demo versions by alias, in the store of the home."""
    packed = asyncio.run(models.ensure_demo(worker_settings, lambda _: None))
    return {str(alias): str(version.id) for alias, version in packed.items()}


@pytest.fixture(scope="session")
def publish_minilm(worker_settings: Settings, versions: dict[str, str]) -> Publisher:
    """Return a publisher of versions of MiniLM that differ from the demo's as told."""

    def made(**changes: object) -> str:
        assert versions
        folder = next(Path(worker_settings.demo_cache).glob("minilm-*"))
        publishing = Publishing(
            store=stores.open_store(worker_settings),
            signer=stores.open_signer(worker_settings),
            work=worker_settings.paths.cache,
            report=lambda _: None,
        )
        choices: Choices = replace(demo_models.MINILM.choices, **changes)  # type: ignore[arg-type]
        return str(publish(folder, describe(folder, measured(folder), choices), publishing).id)

    return made


@pytest.fixture
def start_worker(worker_settings: Settings, shared_settings: dict[str, str]) -> Iterator[WorkerMaker]:
    """Return a starter of workers of the test's own."""
    with ExitStack() as running:

        def start(version: str, **settings: str) -> WorkerProcess:
            merged = {**shared_settings, **QUICK, **settings}
            name = f"w{secrets.token_hex(3)}"
            return running.enter_context(
                WorkerProcess(home=worker_settings.home, version=version, id=name, settings=merged)
            )

        yield start


def started(home: Path, version: str, name: str, settings: dict[str, str]) -> Iterator[WorkerProcess]:
    with WorkerProcess(home=home, version=version, id=name, settings=settings) as running:
        yield running.ready(within_s=300)


@pytest.fixture(scope="session")
def _worker(
    worker_settings: Settings, versions: dict[str, str], shared_settings: dict[str, str]
) -> Iterator[WorkerProcess]:
    # As impatient as this machine lets it be: an engine that gets no time here makes no progress, and is well.
    impatient = {**QUICK, "probe_timeout_s": f"{patient(float(QUICK['probe_timeout_s'])):g}"}
    yield from started(worker_settings.home, versions["smollm2"], "shared", {**shared_settings, **impatient})


@pytest.fixture
def worker(_worker: WorkerProcess) -> WorkerProcess:
    """Return a ready worker of SmolLM2 that tests ask, hurt and put to sleep, whatever the test before left of it."""
    _worker.controller.desired = "serve"
    return _worker.ready()


@pytest.fixture(scope="session")
def unhurried(
    worker_settings: Settings, versions: dict[str, str], shared_settings: dict[str, str]
) -> Iterator[WorkerProcess]:
    """Yield a ready worker of SmolLM2 that may compile in peace: the first log probabilities and grammars take long."""
    yield from started(worker_settings.home, versions["smollm2"], "unhurried", {**shared_settings, **UNHURRIED})


@pytest.fixture(scope="session")
def encoder(
    worker_settings: Settings, versions: dict[str, str], shared_settings: dict[str, str]
) -> Iterator[WorkerProcess]:
    """Yield a ready worker of MiniLM that several tests ask."""
    yield from started(worker_settings.home, versions["minilm"], "encoder", {**shared_settings, **UNHURRIED})
