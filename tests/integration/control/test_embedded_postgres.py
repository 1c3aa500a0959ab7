"""The embedded server as a real process: its places, its recovery, its access."""

import asyncio
import multiprocessing
import os
import shutil
import signal
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import asyncpg
import pytest

from penstock.connectors.postgres.embedded import EmbeddedPostgres, socket_folder
from tests.support import tree
from tests.support.patience import until

pytestmark = pytest.mark.integration
NOBODY = 65534
Make = Callable[[Path], EmbeddedPostgres]


@pytest.fixture
def make() -> Iterator[Make]:
    """Return a maker of servers, which are stopped in the end."""
    made: list[EmbeddedPostgres] = []

    def in_home(home: Path) -> EmbeddedPostgres:
        made.append(EmbeddedPostgres(home / "postgres", home / "logs" / "postgres.log"))
        return made[-1]

    yield in_home
    for server in made:
        server.stop()
        if socket_folder(server.data) != server.data:
            shutil.rmtree(socket_folder(server.data), ignore_errors=True)


def query(dsn: str, sql: str) -> object:
    async def run() -> object:
        connection = await asyncpg.connect(dsn)
        try:
            return await connection.fetchval(sql)
        finally:
            await connection.close()

    return asyncio.run(run())


def homes() -> list[Path]:
    return [
        Path(tempfile.mkdtemp(prefix="penstock-home-")),
        Path(tempfile.mkdtemp(prefix=".penstock-test-", dir=tree.ROOT)),
        Path(tempfile.mkdtemp(prefix="it's a long home ")) / "/".join(["a folder with a long name"] * 5),
    ]


@pytest.mark.parametrize("where", ["temporary folder", "folder in the repository", "long path with spaces and quotes"])
def test_it_runs_in_any_home(make: Make, where: str) -> None:
    """The server starts, answers, stops and starts again, in a short, a local and a very long path."""
    candidates = homes()
    home = candidates[["temporary folder", "folder in the repository"].index(where) if "folder" in where else 2]
    try:
        server = make(home)
        assert (server.is_running(), server.is_healthy()) == (False, False)
        dsn = server.start()
        query(dsn, "create table kept (x int)")
        assert str(query(dsn, "show server_version")).startswith("18.")
        server.stop()
        assert server.pid() == 0
        assert server.start() == dsn
        assert query(dsn, "select count(*) from kept") == 0
    finally:
        server.stop()
        for folder in candidates:
            shutil.rmtree(next(p for p in (folder, *folder.parents) if "penstock" in p.name or "it's" in p.name))


def test_a_second_start_finds_it_running(make: Make, server_home: Path) -> None:
    """Starting a running server changes nothing, from another process too."""
    server = make(server_home)
    dsn = server.start()
    pid = server.pid()
    assert make(server_home).start() == dsn
    assert server.pid() == pid


def test_two_homes_do_not_meet(make: Make, server_home: Path) -> None:
    """Two platforms on one machine have servers, sockets and data of their own, and no port."""
    one, two = make(server_home / "one"), make(server_home / "two")
    query(one.start(), "create table only_here (x int)")
    assert query(two.start(), "select to_regclass('only_here')::text") is None
    assert query(two.dsn, "show listen_addresses") == ""
    assert one.pid() != two.pid()


def test_nobody_else_gets_in(make: Make, server_home: Path) -> None:
    """Data and socket are closed to all but their owner."""
    server = make(server_home)
    server.start()
    folder = socket_folder(server.data)
    for path in (server.data, folder, folder / ".s.PGSQL.5432"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


def test_it_comes_back_after_a_kill(make: Make, server_home: Path) -> None:
    """After `kill -9` of the postmaster, with its lock files left and its children alive, a start recovers."""
    server = make(server_home)
    dsn = server.start()
    query(dsn, "create table kept as select generate_series(1, 1000) x")
    os.kill(server.pid(), signal.SIGKILL)
    until("it is noticed", lambda: not server.is_running())
    assert (server.data / "postmaster.pid").exists()
    server.start()
    assert query(dsn, "select count(*) from kept") == 1000


def test_a_lock_with_the_id_of_another_process_is_seen_through(make: Make, server_home: Path) -> None:
    """A lock file with the id of an unrelated process, as after a reboot, stops no start."""
    server = make(server_home)
    dsn = server.start()
    server.stop()
    lock = f"{os.getpid()}\n{server.data}\n1700000000\n5432\n{server.data}\n\n  1 1\nready   \n"
    for name in ("postmaster.pid", ".s.PGSQL.5432.lock"):
        (server.data / name).write_text(lock)
    assert server.pid() == 0
    server.start()
    assert query(dsn, "select 1") == 1


def test_a_first_start_that_was_cut_off_is_done_again(make: Make, server_home: Path) -> None:
    """A half-made cluster of a killed first start is replaced by a whole one."""
    server = make(server_home)
    (server.data / "draft" / "base").mkdir(parents=True)
    (server.data / "base" / "1").mkdir(parents=True)
    (server.data / "base" / "1" / "junk").touch()
    assert query(server.start(), "select 1") == 1


def run_as_nobody(home: Path) -> None:
    """Become an ordinary account for good, then start and stop a server; a failure is the exit code."""
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    server = EmbeddedPostgres(home / "postgres", home / "logs" / "postgres.log")
    server.start()
    was_healthy = server.is_healthy()
    server.stop()
    os._exit(0 if was_healthy and not server.is_running() else 1)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_it_runs_without_being_root() -> None:
    """An ordinary account starts and stops the server in a folder of its own."""
    home = Path(tempfile.mkdtemp(prefix="penstock-nobody-"))
    os.chown(home, NOBODY, NOBODY)
    child = multiprocessing.get_context("fork").Process(target=run_as_nobody, args=(home,))
    child.start()
    child.join(timeout=60)
    shutil.rmtree(home)
    assert child.exitcode == 0
