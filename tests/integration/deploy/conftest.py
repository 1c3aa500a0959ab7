"""What tests of deployed processes share: a real Postgres, an empty database in it, and a deployment around it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.platforms.deployed import Place, deployed
from tests.support.stores.postgres import empty_dsn, postgres_dsn, postgres_server

__all__ = ["empty_dsn", "postgres_dsn", "postgres_server"]


@pytest.fixture
def place(tmp_path: Path, empty_dsn: str) -> Iterator[Place]:
    """Yield a deployment with its secrets and no process yet."""
    with deployed(tmp_path, empty_dsn) as found:
        yield found
