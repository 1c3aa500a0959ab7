"""Refuses a start on another platform's database, or with a pepper other than the one that hashed its API keys.

Two platforms would bill into one ledger; with another pepper every caller would be told that the key is wrong.
"""

import asyncio
from collections.abc import Callable

from penstock.apps.keys import Keys, platform_file
from penstock.apps.stores import database_dsn
from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.owner import is_owner, is_pepper
from penstock.domain.command_error import CommandError
from penstock.domain.errors import StoreUnavailable
from penstock.domain.tenancy.keys import Purpose, derive
from penstock.settings.pipeline import PipelineSettings
from penstock.settings.stores import KeySettings

RETRY_S = 1.0


def fingerprint(secret: bytes) -> str:
    return derive(secret, Purpose.FINGERPRINT).hex()


async def check(settings: KeySettings, database: Database, found: Keys) -> None:
    """Raise ``CommandError`` for another platform's database, or another pepper; ``StoreUnavailable`` if the database
    is unavailable.

    The database then identifies the platform by its newest key.
    """
    if not await is_owner(database, tuple(map(fingerprint, found.platform))):
        raise CommandError(
            f"The database belongs to another platform: it was set up with another key than {platform_file(settings)}.",
            do="Give this home a database of its own in PENSTOCK_DATABASE_URL, or that platform's key.",
        )
    if not await is_pepper(database, tuple(map(fingerprint, found.peppers))):
        raise CommandError(
            f"API keys of this platform are hashed with another pepper than {_pepper(settings)}: none would work.",
            do="Mount the platform's pepper at PENSTOCK_PEPPER_FILE; during a rotation, "
            "the previous one at <file>.previous.",
        )


async def known(settings: PipelineSettings, found: Keys) -> None:
    """Wait for the database; raise ``CommandError`` if it is another platform's."""
    async with Database(database_dsn(settings), max_connections=1) as database:
        while True:
            try:
                return await check(settings, database, found)
            except StoreUnavailable:
                await asyncio.sleep(RETRY_S)


def refuse_foreign(known: "asyncio.Task[None]") -> None:
    """Raise the refusal, if it is known already."""
    if known.done() and not known.cancelled():
        known.result()


def if_foreign(end: Callable[[], None], known: "asyncio.Task[None]") -> None:
    if not known.cancelled() and known.exception() is not None:
        end()


def _pepper(settings: KeySettings) -> str:
    return f"that in {settings.pepper_file}" if settings.pepper_file else "the one out of the platform's key"
