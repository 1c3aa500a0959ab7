"""`penstock init`: the first start of an unattended platform."""

import json
import subprocess
import sys
from pathlib import Path

import asyncpg
import pytest

from penstock.domain.tenancy.keys import Purpose, derive, hash_secret, key_id_of

pytestmark = pytest.mark.integration
KEY, PEPPER = "ab" * 32, "cd" * 32


class Job:
    """The job's surroundings: secrets, a file for the key, an empty database."""

    def __init__(self, folder: Path, dsn: str) -> None:
        self.folder, self.dsn, self.admin_key = folder, dsn, folder / "out/admin.key"
        for name, content in (("platform.key", KEY), ("pepper", PEPPER)):
            (folder / name).write_text(content)
            (folder / name).chmod(0o440)

    def start(self, **more: str) -> "subprocess.Popen[str]":
        """Start the job with nothing but its settings."""
        settings = {
            "PENSTOCK_HOME": str(self.folder / "home"),
            "PENSTOCK_DATABASE_URL": self.dsn,
            "PENSTOCK_PLATFORM_KEY_FILE": str(self.folder / "platform.key"),
            "PENSTOCK_PEPPER_FILE": str(self.folder / "pepper"),
            "PENSTOCK_ADMIN_KEY_FILE": str(self.admin_key),
        }
        return subprocess.Popen(
            [sys.executable, "-m", "penstock.cli", "init"],
            env=settings | more,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, **more: str) -> str:
        """Run it to its end and return what it printed."""
        return self.ended(self.start(**more))

    @staticmethod
    def ended(process: "subprocess.Popen[str]") -> str:
        printed, _ = process.communicate(timeout=60)
        assert process.returncode == 0, printed
        return printed

    async def state(self) -> str:
        """Return everything that the database holds of tenants, keys, acts and migrations."""
        connection = await asyncpg.connect(self.dsn)
        found = {
            table: [dict(row) for row in await connection.fetch(f"select * from {table} order by 1")]  # noqa: S608
            for table in ("org", "tenant", "api_key", "audit_event", "schema_migration")
        }
        await connection.close()
        return json.dumps(found, default=str)


@pytest.fixture
def job(tmp_path: Path, empty_dsn: str) -> Job:
    """Return a job before its first run."""
    return Job(tmp_path, empty_dsn)


async def test_it_makes_what_is_missing_once(job: Job) -> None:
    """Finding 3.16: the first run makes tables and an admin key in its file alone, the second changes nothing."""
    first = job.run()
    secret, before = job.admin_key.read_text().strip(), await job.state()
    assert job.admin_key.stat().st_mode & 0o777 == 0o600
    assert secret not in first
    assert "the first admin key" in first
    stored = next(key for key in json.loads(before)["api_key"] if key["id"] == key_id_of(secret))
    assert stored["secret_hash"] == hash_secret(secret, bytes.fromhex(PEPPER))
    job.admin_key.unlink()
    assert "0 migrations" in job.run()
    assert await job.state() == before
    assert not job.admin_key.exists()


async def test_several_at_once_make_one_key(job: Job) -> None:
    """Jobs that run at the same time wait for each other: one admin key, and it is the one in the file."""
    for process in [job.start() for _ in range(3)]:
        job.ended(process)
    keys = json.loads(await job.state())["api_key"]
    assert [key["id"] for key in keys] == [key_id_of(job.admin_key.read_text().strip())]


async def test_a_key_that_could_not_be_written_is_not_made(job: Job) -> None:
    """If the file can't be written, the database holds no unknown key."""
    job.admin_key.parent.write_text("a file where a folder should be")
    process = job.start()
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "Can't write to" in printed
    assert json.loads(await job.state())["api_key"] == []
    assert derive(bytes.fromhex(KEY), Purpose.PEPPER).hex() not in printed


async def test_a_role_that_is_refused_is_said_so(job: Job) -> None:
    """A database that answers and refuses the role isn't called away; the remedy names both places."""
    process = job.start(PENSTOCK_DATABASE_USER="nobody_here")
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    told = " ".join(printed.split())
    assert "the database refuses the role or its password" in told
    assert "PENSTOCK_DATABASE_PASSWORD_FILE" in told
    assert "can't be reached" not in told
