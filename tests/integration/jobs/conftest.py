"""One platform with two jobs runners for all tests of jobs: each leaves it as it was."""

from collections.abc import Iterator

import pytest

from tests.integration.conftest import HomeMaker
from tests.support.platforms.jobs import Jobs
from tests.support.platforms.local import Platform
from tests.support.stores.postgres import database, database_dsn, postgres_dsn, postgres_server

__all__ = ["database", "database_dsn", "jobs", "postgres_dsn", "postgres_server"]


@pytest.fixture(scope="package")
def jobs(new_home: HomeMaker, shared_settings: dict[str, str]) -> Iterator[Jobs]:
    """Yield the jobs of a platform with one real engine and two runners."""
    settings = {**shared_settings, "job_runners": "2", "drain_grace_s": "10", "webhook_networks": "127.0.0.0/8"}
    with Platform(home=new_home("jobs"), models="smollm2", settings=settings) as platform:
        yield Jobs(platform)
