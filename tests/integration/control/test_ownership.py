"""One database, one platform: a platform with another key is refused in words, and writes nothing."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.apps import ownership
from penstock.apps.keys import Keys
from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.owner import is_owner
from penstock.domain.command_error import CommandError
from penstock.domain.tenancy.keys import Purpose, derive
from penstock.settings import Settings
from penstock.supervision.files import write_private
from tests.support import tree

pytestmark = pytest.mark.integration
OURS, THEIRS = b"\x01" * 32, b"\x02" * 32


def keys(platform: bytes, *peppers: bytes) -> Keys:
    """Return a platform's key with its peppers, the newest first."""
    return Keys(platform=(platform,), peppers=peppers or (derive(platform, Purpose.PEPPER),))


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
    """Two homes on one Postgres wrote one ledger unnoticed: the second one hears of its owner."""
    settings = Settings(home=tmp_path)
    await ownership.check(settings, database, keys(OURS))
    await ownership.check(settings, database, keys(OURS))
    with pytest.raises(CommandError, match="belongs to another platform") as caught:
        await ownership.check(settings, database, keys(THEIRS))
    assert "PENSTOCK_DATABASE_URL" in caught.value.do


async def test_another_pepper_is_refused_in_words(database: Database, tmp_path: Path) -> None:
    """An outsider's finding: a gateway with another pepper was ready and answered 401 to every key."""
    settings, first, new = Settings(home=tmp_path, pepper_file="/run/pepper"), b"\x03" * 32, b"\x04" * 32
    await ownership.check(settings, database, keys(OURS, first))
    with pytest.raises(CommandError, match="another pepper than that in /run/pepper") as caught:
        await ownership.check(settings, database, keys(OURS, new))
    assert "PENSTOCK_PEPPER_FILE" in caught.value.do
    await ownership.check(settings, database, keys(OURS, first, new))
    await ownership.check(settings, database, keys(OURS, new, first))
    await ownership.check(settings, database, keys(OURS, new))
    with pytest.raises(CommandError, match="another pepper"):
        await ownership.check(settings, database, keys(OURS, first))


@pytest.fixture
def second(tmp_path: Path, database_dsn: str) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """Return what runs a process of another home on the same database to its end."""
    write_private(tmp_path / "platform.key", THEIRS.hex())
    own = {"PENSTOCK_HOME": str(tmp_path), "PENSTOCK_DATABASE_URL": database_dsn, "PENSTOCK_PORT": "0"}

    def run(process: str, **more: str) -> "subprocess.CompletedProcess[str]":
        words = [sys.executable, "-m", "penstock.cli", process]
        return subprocess.run(
            words,
            env={**os.environ, **own, **more},
            cwd=tree.ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


@pytest.mark.parametrize("process", ["controller", "gateway"])
async def test_a_process_with_another_key_does_not_start(
    database: Database, second: Callable[..., "subprocess.CompletedProcess[str]"], process: str
) -> None:
    """Controller and gateway end at once with the reason, and without a traceback."""
    await is_owner(database, (ownership.fingerprint(OURS),))
    done = second(process)
    assert done.returncode == 1
    assert "belongs to another platform" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert "gateway_serves" not in done.stdout


@pytest.mark.parametrize("process", ["controller", "gateway"])
async def test_a_process_with_another_pepper_does_not_start(
    database: Database, second: Callable[..., "subprocess.CompletedProcess[str]"], tmp_path: Path, process: str
) -> None:
    """Controller and gateway of the right key and another pepper end at once and name the setting."""
    await ownership.check(Settings(home=tmp_path), database, keys(THEIRS))
    write_private(tmp_path / "pepper", OURS.hex())
    done = second(process, PENSTOCK_PEPPER_FILE=str(tmp_path / "pepper"))
    assert done.returncode == 1
    assert "PENSTOCK_PEPPER_FILE" in done.stderr
    assert "Traceback" not in done.stderr
    assert OURS.hex() not in done.stderr
