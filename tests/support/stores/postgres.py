"""A real Postgres for tests: one server per test session, a fresh migrated database per test that asks for one.

Import the fixtures into the ``conftest.py`` of the folder that uses them.
"""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import asyncpg
import pytest

from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.embedded import EmbeddedPostgres, dsn_of
from penstock.connectors.postgres.migrations import migrate
from tests.support.patience import patient

_TEMPLATE = "penstock_template"


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[EmbeddedPostgres]:
    """Run one embedded server for the session."""
    home = Path(tempfile.mkdtemp(prefix="penstock-test-"))
    server = EmbeddedPostgres(home / "postgres", home / "logs" / "postgres.log")
    server.start()
    yield server
    server.stop()
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def server_home() -> Iterator[Path]:
    """Yield a folder for servers of the test's own.

    Not below ``tmp_path``: as root the server is another account, and every test session closes that folder to others.
    """
    home = Path(tempfile.mkdtemp(prefix="penstock-test-"))
    yield home
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def own_server(server_home: Path) -> Iterator[EmbeddedPostgres]:
    """Yield a server of the test's own, not started, for tests that hurt it."""
    server = EmbeddedPostgres(server_home / "postgres", server_home / "logs" / "postgres.log")
    yield server
    server.stop()


@pytest.fixture(scope="session")
def postgres_dsn(postgres_server: EmbeddedPostgres) -> str:
    """Return the address of the session's server, with a migrated template in it."""
    # In a thread of its own, since an asynchronous fixture may ask for this one.
    with ThreadPoolExecutor(max_workers=1) as thread:
        template = dsn_of(postgres_server.data, _TEMPLATE)
        thread.submit(lambda: asyncio.run(_make_template(postgres_server.dsn, template))).result()
    return postgres_server.dsn


@pytest.fixture
async def database_dsn(postgres_server: EmbeddedPostgres, postgres_dsn: str) -> AsyncIterator[str]:
    """Return the address of a migrated database of the test's own."""
    async with migrated(postgres_server, postgres_dsn) as dsn:
        yield dsn


@pytest.fixture
async def empty_dsn(postgres_server: EmbeddedPostgres, postgres_dsn: str) -> AsyncIterator[str]:
    """Return the address of an empty database of the test's own."""
    async with _own_database(postgres_server, postgres_dsn) as dsn:
        yield dsn


@pytest.fixture
async def database(database_dsn: str) -> AsyncIterator[Database]:
    """Return an open pool on a migrated database of the test's own; how soon it gives up is a matter of other tests."""
    async with Database(database_dsn, slower=patient(3.0)) as opened:
        yield opened


def migrated(server: EmbeddedPostgres, server_dsn: str) -> AbstractAsyncContextManager[str]:
    """Make a migrated database for as long as the context lasts, and return its address."""
    return _own_database(server, server_dsn, f"template {_TEMPLATE} strategy file_copy")


@asynccontextmanager
async def _own_database(server: EmbeddedPostgres, server_dsn: str, options: str = "") -> AsyncIterator[str]:
    connection = await asyncpg.connect(server_dsn)
    name = f"test_{await connection.fetchval('select nextval($1)', 'test_number')}"
    await connection.execute(f"create database {name} {options}")
    yield dsn_of(server.data, name)
    await connection.execute(f"drop database {name} with (force)")
    await connection.close()


async def _make_template(server: str, template: str) -> None:
    connection = await asyncpg.connect(server)
    # This server's data outlives nothing: a copy of the template need not reach the disk before a test goes on.
    await connection.execute("alter system set fsync = off")
    await connection.execute("select pg_reload_conf()")
    await connection.execute("create sequence test_number")
    await connection.execute(f"create database {_TEMPLATE}")
    await connection.close()
    async with Database(template, slower=patient(3.0)) as database:
        await migrate(database, is_noted=False)
