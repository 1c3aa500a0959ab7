"""A start is refused on a database that another platform writes: both would bill into one ledger."""

import asyncio

from penstock.adapters.postgres.database import Database
from penstock.adapters.postgres.owner import is_owner
from penstock.apps.keys import platform_file
from penstock.apps.settings import GatewaySettings, KeySettings
from penstock.apps.stores import database_dsn
from penstock.domain.command_error import CommandError
from penstock.domain.errors import StoreUnavailable
from penstock.domain.keys import Purpose, derive

RETRY_S = 1.0


def fingerprint(platform_key: bytes) -> str:
    """Return what a database may know of the platform's key."""
    return derive(platform_key, Purpose.FINGERPRINT).hex()


async def check(settings: KeySettings, database: Database, platform_keys: tuple[bytes, ...]) -> None:
    """Raise ``CommandError`` where the database is another platform's, ``StoreUnavailable`` where nobody can tell.

    The newest key first: the database knows the platform by that one from then on.
    """
    if not await is_owner(database, tuple(map(fingerprint, platform_keys))):
        raise CommandError(
            f"The database belongs to another platform: it began with another key than {platform_file(settings)}.",
            do="Give this home a database of its own in PENSTOCK_DATABASE_URL, or that platform's key.",
        )


async def known(settings: GatewaySettings, platform_keys: tuple[bytes, ...]) -> None:
    """Return as soon as the database is known to be this platform's; raise ``CommandError`` where it isn't."""
    async with Database(database_dsn(settings), max_connections=1) as database:
        while True:
            try:
                return await check(settings, database, platform_keys)
            except StoreUnavailable:
                await asyncio.sleep(RETRY_S)
