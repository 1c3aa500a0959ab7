"""One platform with two jobs runners for all tests of jobs: each leaves it as it was."""

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from penstock.local.restarts import LOG
from penstock.supervision.restarts import RestartPolicy
from tests.integration.conftest import HomeMaker
from tests.support.patience import until
from tests.support.platforms.jobs import Jobs
from tests.support.platforms.local import Platform
from tests.support.platforms.sharing import adjacent
from tests.support.stores.postgres import database, database_dsn, postgres_dsn, postgres_server
from tests.support.stores.redis_server import RedisServer

__all__ = ["database", "database_dsn", "jobs", "postgres_dsn", "postgres_server"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let no platform be idle between files."""
    adjacent(items, Path(__file__).parent, ("jobs",))


@pytest.fixture(scope="session")
def jobs(
    new_home: HomeMaker, shared_settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Jobs]:
    """Yield the jobs of a platform with one real engine and two runners."""
    with RedisServer(tmp_path_factory.mktemp("jobs")) as redis:
        stores = {"limits_url": redis.url, "answers_url": redis.answers_url}
        jobs_settings = {"job_runners": "2", "drain_grace_s": "10", "webhook_networks": "127.0.0.0/8"}
        settings = {**shared_settings, **stores, **jobs_settings}
        with Platform(home=new_home("jobs"), models="smollm2", settings=settings) as platform:
            yield Jobs(platform)


@pytest.fixture(autouse=True)
def _no_crash_loop(request: pytest.FixtureRequest) -> None:
    """Wait until no process has died so often lately that the supervisor would give up after this test's kills."""
    if "jobs" not in request.fixturenames:
        return
    platform: Platform = request.getfixturevalue("jobs").platform
    policy = RestartPolicy()
    within_s = policy.window_s + 1.0
    until("deaths are forgotten", lambda: _most_deaths(platform, policy) <= policy.max_deaths // 2, within_s=within_s)


def _most_deaths(platform: Platform, policy: RestartPolicy) -> int:
    """Return the deaths of the process that died most often within the policy's window."""
    since = datetime.now(UTC) - timedelta(seconds=policy.window_s)
    lines = [json.loads(line) for line in (platform.home / "logs" / LOG).read_text().splitlines()]
    deaths = [line for line in lines if line["event"] == "process_restarted"]
    return max(
        Counter(one["object"] for one in deaths if datetime.fromisoformat(one["time"]) > since).values(), default=0
    )
