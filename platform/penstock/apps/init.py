"""The first start of a platform, and of each newer release: migrations, roles, the operators' first key.

The job may run again: an advisory lock lets one run at a time, and existing data is not changed. The key, which is
never printed, is written to its file before the database stores it: the next run replaces a worthless one.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from penstock.apps import keys, ownership, peers
from penstock.apps.stores import database_dsn
from penstock.connectors.postgres import roles
from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.migrations import alone, migrate
from penstock.connectors.postgres.safety import PostgresPacks
from penstock.connectors.postgres.tenancy import PostgresTenancy
from penstock.control.registry import operators, packs
from penstock.domain.clock import Clock
from penstock.domain.command_error import CommandError
from penstock.domain.errors import PenstockError
from penstock.mounted import secret_file
from penstock.settings.processes import InitSettings
from penstock.supervision.files import unwritable, write_private

PATIENCE_S = 60.0
CONNECTIONS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    migrations: int
    key_made: bool

    def __str__(self) -> str:
        key = "the first admin key is in its file" if self.key_made else "operators have an admin key already"
        return f"{self.migrations} migrations applied, {key}"


def main(settings: InitSettings, clock: Clock) -> Done:
    peers.check_stores(settings)
    keys.check_files(settings.model_copy(update={"admin_key_file": ""}), InitSettings)
    return asyncio.run(_main(settings, clock))


async def _main(settings: InitSettings, clock: Clock) -> Done:
    found = keys.read(settings)
    file = Path(settings.admin_key_file) if settings.admin_key_file else settings.paths.admin_key
    async with _opened(settings) as database, alone(database, within_s=PATIENCE_S):
        applied = await migrate(database)
        await _let_in(settings, database)
        await ownership.check(settings, database, found)
        keep = partial(_write, file)
        made = await operators.let_in(PostgresTenancy(database), clock.now(), found.peppers[0], keep)
        await packs.seed(PostgresPacks(database), clock.now())
    return Done(migrations=applied, key_made=made)


async def _let_in(settings: InitSettings, database: Database) -> None:
    files = {
        roles.GATEWAY: settings.gateway_database_password_file,
        roles.CONTROLLER: settings.controller_database_password_file,
        roles.RUNNER: settings.runner_database_password_file,
    }
    passwords = {role: secret_file.text(Path(file), f"password of {role}") for role, file in files.items() if file}
    if passwords:
        await roles.grant(database, passwords)


@asynccontextmanager
async def _opened(settings: InitSettings) -> AsyncIterator[Database]:
    try:
        async with Database(database_dsn(settings), max_connections=CONNECTIONS) as database:
            yield database
    except PenstockError as error:
        raise CommandError(
            f"The database refused the first start: {error.message}.",
            do="Check the role and the name in PENSTOCK_DATABASE_URL, the password in PENSTOCK_DATABASE_PASSWORD_FILE, "
            "and that this role may create tables and roles.",
        ) from error


def _write(file: Path, secret: str) -> None:
    try:
        write_private(file, secret)
    except OSError as error:
        raise unwritable(file.parent, error) from error
