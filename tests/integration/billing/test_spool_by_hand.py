"""A gateway that never comes back: its volume is mounted elsewhere, and one command brings its rows to the ledger."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.ledger import PostgresLedger
from penstock.domain.tenancy.ledger import Span
from tests.support.platforms import commands

pytestmark = pytest.mark.integration
ROOT = Path(__file__).resolve().parents[3]
EVER = Span(begin=0.0, end=1e12)
LAST_WORDS = """
import os, sys
from pathlib import Path
from penstock.connectors.spool.spool import Spool
from penstock.domain.clock import SystemClock
from penstock.domain.ids import RequestId
from tests.unit.connectors.spool.test_spool import opening, row
spool = Spool(Path({folder!r}), SystemClock())
for name in ("whole", "half", "unheard"):
    spool.opened(opening(name))
spool.closed(row(opening("whole")))
spool.delivered(RequestId("half"), 7)
spool.flush()
if {lives}:
    print("ready", flush=True)
    sys.stdin.read()
os._exit(1)
"""


def gateway(folder: Path, *, lives: bool = False) -> subprocess.Popen[bytes]:
    """Start something that writes a gateway's spool and, unless it ``lives``, ends as a lost node ends it."""
    code = LAST_WORDS.format(folder=str(folder), lives=lives)
    return subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def ended(folder: Path) -> None:
    """Leave the files of a gateway with a lost node."""
    with gateway(folder):
        pass


def command(folder: Path, dsn: str) -> subprocess.CompletedProcess[str]:
    words = ["--home", str(folder.parent), "spool", "deliver", str(folder)]
    return commands.run(words, {**os.environ, "PENSTOCK_DATABASE_URL": dsn, "COLUMNS": "200"})


async def requests(dsn: str) -> dict[str, tuple[str, int]]:
    """Return what the ledger holds: outcome and tokens by request."""
    async with Database(dsn, max_connections=1) as database:
        rows = await PostgresLedger(database).page(EVER)
        return {row.request: (row.outcome, row.output_tokens) for row in rows}


async def test_what_a_gateway_owed_reaches_the_ledger_without_it(tmp_path: Path, database_dsn: str) -> None:
    """Rows and what was open are delivered once, however often it is run, and nothing is left in the folder."""
    folder = tmp_path / "spool"
    ended(folder)
    for rows in (3, 0):
        done = command(folder, database_dsn)
        assert (done.returncode, done.stdout.strip()) == (0, f"{rows} rows delivered; nothing is left"), done.stderr
    assert await requests(database_dsn) == {"whole": ("ok", 5), "half": ("internal", 7), "unheard": ("internal", 0)}
    assert list(folder.iterdir()) == []


async def test_a_gateway_that_lives_keeps_its_own(tmp_path: Path, database_dsn: str) -> None:
    """What a running gateway has in the folder is left alone, and said."""
    folder = tmp_path / "spool"
    with gateway(folder, lives=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"ready\n"
        done = command(folder, database_dsn)
        running.kill()
    assert done.returncode == 1
    assert "0 rows delivered; 1 files are left: of running gateways" in done.stdout
    assert await requests(database_dsn) == {}


@pytest.mark.parametrize(("is_there", "told"), [(False, "There is no spool in"), (True, "The database is away")])
def test_what_can_not_be_done_is_said(tmp_path: Path, *, is_there: bool, told: str) -> None:
    """A folder that is no spool and a database that is away end in words, with the rows in place."""
    folder = tmp_path / "spool"
    if is_there:
        ended(folder)
    before = sorted(folder.iterdir()) if is_there else []
    done = command(folder, "postgresql://nobody@127.0.0.1:1/penstock")
    assert done.returncode == 1
    assert told in done.stderr
    assert (sorted(folder.iterdir()) if is_there else []) == before
