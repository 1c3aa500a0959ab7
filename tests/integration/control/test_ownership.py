"""One database, one platform: whoever comes with another key is refused in words, and writes nothing."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.adapters.postgres.database import Database
from penstock.adapters.postgres.owner import is_owner
from penstock.apps import ownership
from penstock.apps.settings import Settings
from penstock.domain.command_error import CommandError
from penstock.supervision.files import write_private
from tests.support import tree

pytestmark = pytest.mark.integration
OURS, THEIRS = b"\x01" * 32, b"\x02" * 32


async def test_a_database_is_the_first_ones(database: Database) -> None:
    """The first key to come owns the database for good; what is kept of it tells nothing about it."""
    ours, theirs = ownership.fingerprint(OURS), ownership.fingerprint(THEIRS)
    assert OURS.hex() not in ours
    assert [await is_owner(database, (one,)) for one in (ours, theirs, ours)] == [True, False, True]


async def test_a_platform_keeps_its_database_when_its_key_is_exchanged(database: Database) -> None:
    """With both keys the database is known by the newer one from then on; the old one alone is a stranger's."""
    ours, new = ownership.fingerprint(OURS), ownership.fingerprint(THEIRS)
    asked = [(ours,), (ours, new), (new, ours), (new,), (ours,)]
    assert [await is_owner(database, one) for one in asked] == [True, True, True, True, False]


async def test_another_platforms_database_is_refused_in_words(database: Database, tmp_path: Path) -> None:
    """Two homes on one Postgres wrote one ledger and nobody noticed: the second one hears whose it is."""
    settings = Settings(home=tmp_path)
    await ownership.check(settings, database, (OURS,))
    await ownership.check(settings, database, (OURS,))
    with pytest.raises(CommandError, match="belongs to another platform") as caught:
        await ownership.check(settings, database, (THEIRS,))
    assert "PENSTOCK_DATABASE_URL" in caught.value.do


@pytest.fixture
def second(tmp_path: Path, database_dsn: str) -> Callable[[str], "subprocess.CompletedProcess[str]"]:
    """Return what runs a process of another home on the same database to its end."""
    write_private(tmp_path / "platform.key", THEIRS.hex())
    own = {"PENSTOCK_HOME": str(tmp_path), "PENSTOCK_DATABASE_URL": database_dsn, "PENSTOCK_PORT": "0"}

    def run(process: str) -> "subprocess.CompletedProcess[str]":
        words = [sys.executable, "-m", "penstock.apps.cli", process]
        return subprocess.run(
            words, env={**os.environ, **own}, cwd=tree.ROOT, capture_output=True, text=True, timeout=60, check=False
        )

    return run


@pytest.mark.parametrize("process", ["controller", "gateway"])
async def test_a_process_with_another_key_does_not_start(
    database: Database, second: Callable[[str], "subprocess.CompletedProcess[str]"], process: str
) -> None:
    """Controller and gateway end at once with the reason, and without a traceback."""
    await is_owner(database, (ownership.fingerprint(OURS),))
    done = second(process)
    assert done.returncode == 1
    assert "belongs to another platform" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert "gateway_serves" not in done.stdout
