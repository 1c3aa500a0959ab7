"""Where drills are run: one observed platform that all of them hurt and mend, and a gateway before stand-in engines."""

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from penstock.domain.tenancy.tenant import Plan
from tests.integration.conftest import HomeMaker
from tests.support.failures.drill import Desk, Log
from tests.support.failures.injected import Stage
from tests.support.gateways.zones import Site, site
from tests.support.monitoring.alarms import Alarms, alarms
from tests.support.platforms.local import Platform
from tests.support.platforms.rollouts import Crowd, crowded, town
from tests.support.stores.redis_server import RedisServer

REPORT = Path(__file__).parents[3] / "build/drills.md"
_log = Log()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what was measured, and keep it."""
    if _log.rows:
        REPORT.parent.mkdir(exist_ok=True)
        REPORT.write_text(_log.markdown())
        terminalreporter.section("drills")
        terminalreporter.write(_log.markdown())


@pytest.fixture(scope="session")
def stage(new_home: HomeMaker, shared_settings: dict[str, str]) -> Iterator[Stage]:
    """Yield a platform with MiniLM, mutual TLS, limits in a Redis, and a Prometheus that looks every second."""
    store = new_home("store")
    store.mkdir()
    with RedisServer(store) as redis:
        settings = {
            **shared_settings,
            "observe": "true",
            "scrape_s": "1",
            "tls": "on",
            "limits_url": redis.url,
            "answers_url": redis.answers_url,
            "limits_when_away": "requests=open",
        }
        with Platform(home=new_home("drills"), models="minilm", settings=settings) as platform:
            platform.run("tenants", "plan", "demo", "requests_per_min=1000000")
            yield Stage(platform=platform, redis=redis)


@pytest.fixture
def desk(stage: Stage, tmp_path: Path) -> Desk:
    """Return a desk at the platform's home."""
    (tmp_path / ".penstock").symlink_to(stage.platform.home)
    return Desk(folder=tmp_path, environment=stage.platform.environment, alarms=lambda: _of(stage.platform), log=_log)


def _of(platform: Platform) -> Alarms:
    """Return the platform's own Prometheus, which may be another process after a restart."""
    return Alarms(
        url=(platform.home / "run/prometheus.addr").read_text().strip(),
        config=platform.home / "observe/prometheus.yml",
        pid=platform.pids("prometheus")[0],
    )


@pytest.fixture(scope="session")
def zones(homes: Path) -> Iterator[Site]:
    """Yield a real gateway before two stand-in engines in each of two zones."""
    with site(homes / "zones", {"toy": {"a": 2, "b": 2}}, plan=Plan(), start_s=17.0) as running:
        (running.gateway.home.root / "logs").symlink_to(running.gateway.home.root)
        yield running


@pytest.fixture(scope="session")
def watched(zones: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Alarms]:
    """Yield a Prometheus that reads this gateway every second."""
    with alarms(tmp_path_factory.mktemp("prometheus"), {"gateway-1": zones.gateway.metrics_url}) as running:
        yield running


@pytest.fixture
def gateway_desk(zones: Site, watched: Alarms, tmp_path: Path) -> Desk:
    """Return a desk at the gateway's home."""
    (tmp_path / ".penstock").symlink_to(zones.gateway.home.root)
    environment: Mapping[str, str] = {**os.environ, "PENSTOCK_HOME": str(zones.gateway.home.root)}
    return Desk(folder=tmp_path, environment=environment, alarms=lambda: watched, log=_log)


@pytest.fixture(scope="session")
def crowd() -> Iterator[Crowd]:
    """Yield a site with rollouts and users that go on asking."""
    with town() as place:
        place.lead_to(place.version(place.site.engines[0]))
        with crowded(place) as running:
            yield running


@pytest.fixture
def rollout_desk(crowd: Crowd, tmp_path: Path) -> Iterator[Desk]:
    """Yield a desk at the site's home, as its operator, with a Prometheus that reads the controller."""
    (tmp_path / ".penstock").symlink_to(crowd.place.home.root)
    with alarms(tmp_path, {"controller-1": crowd.place.metrics_url}) as running:
        yield Desk(folder=tmp_path, environment=crowd.environment, alarms=lambda: running, log=_log)


@pytest.fixture(autouse=True)
def _logs_of_a_failed_drill(request: pytest.FixtureRequest) -> Iterator[None]:
    """Print the platform's logs if a drill on it fails."""
    failed_before = request.session.testsfailed
    yield
    if request.session.testsfailed > failed_before and "stage" in request.fixturenames:
        sys.stdout.write(request.getfixturevalue("stage").platform.logs())
