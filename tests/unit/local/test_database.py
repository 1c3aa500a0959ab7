"""The supervisor's Postgres: a death during its restart is one more death, and a crash loop ends the platform."""

import asyncio
from pathlib import Path

import pytest

from penstock.connectors.postgres.embedded import EmbeddedPostgres
from penstock.domain.clock import SystemClock
from penstock.domain.command_error import CommandError
from penstock.domain.errors import StoreUnavailable
from penstock.local.database import Database
from penstock.local.restarts import Restarts
from penstock.settings import Settings
from penstock.supervision.restarts import RestartPolicy


class Dying(EmbeddedPostgres):
    """A server that is gone, and whose next starts fail so many times."""

    def __init__(self, folder: Path, fails: int) -> None:
        super().__init__(folder / "postgres", folder / "postgres.log")
        self.starts, self._fails = 0, fails

    def is_running(self) -> bool:
        return self.starts > self._fails

    def pid(self) -> int:
        return 0

    def start(self) -> str:
        self.starts += 1
        if not self.is_running():
            raise StoreUnavailable("pg_ctl: could not start server")
        return ""


def database(server: Dying, folder: Path, said: list[str]) -> Database:
    return Database(
        settings=Settings(home=folder),
        server=server,
        clock=SystemClock(),
        report=said.append,
        policy=RestartPolicy(first_wait_s=0.001),
        told=Restarts(SystemClock()),
    )


async def test_a_death_during_a_restart_is_one_more_death(tmp_path: Path) -> None:
    """A second `kill -9` while it recovered ended the whole platform; it is started once more, and both are counted."""
    server, said = Dying(tmp_path, fails=2), list[str]()
    watching = asyncio.create_task(database(server, tmp_path, said).watch())
    async with asyncio.timeout(10):
        while not server.is_running():  # noqa: ASYNC110  a server is asked, as its supervisor asks it
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    assert not watching.done()
    watching.cancel()
    assert server.starts == 3
    assert [line.startswith("postgres: The embedded Postgres did not start") for line in said] == [
        False, True, False, True, False,
    ]  # fmt: skip


async def test_a_crash_loop_ends_the_platform(tmp_path: Path) -> None:
    """Six deaths within a minute are no accident."""
    server = Dying(tmp_path, fails=99)
    async with asyncio.timeout(10):
        with pytest.raises(CommandError, match="keeps dying"):
            await database(server, tmp_path, []).watch()
    assert server.starts == RestartPolicy().max_deaths
