"""Contracts run on the memory twins and on the real servers."""

from collections.abc import AsyncIterator

import pytest

from penstock.connectors.postgres.database import Database
from tests.support.jobs.stores import MemoryWorld, PostgresWorld, World
from tests.support.stores.postgres import database, database_dsn, postgres_dsn, postgres_server

__all__ = ["database", "database_dsn", "postgres_dsn", "postgres_server"]


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.integration)])
def world(request: pytest.FixtureRequest) -> World:
    if request.param == "memory":
        return MemoryWorld()
    database: Database = request.getfixturevalue("database")
    return PostgresWorld(database)


@pytest.fixture
async def consistent(world: World) -> AsyncIterator[None]:
    """Whatever a test does, reservations and lanes are those of the open jobs in the end."""
    yield
    if isinstance(world, PostgresWorld):
        assert await world.is_consistent()
