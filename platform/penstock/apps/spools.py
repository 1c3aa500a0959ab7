"""What a gateway that does not come back owed: its spool, read where its volume is mounted, and brought to the ledger.

A gateway that starts in the folder does the same by itself; this is for a folder that none will ever start in again.
"""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.ledger import PostgresLedger
from penstock.connectors.spool.spool import Spool
from penstock.domain.clock import Clock
from penstock.domain.command_error import CommandError
from penstock.domain.errors import StoreUnavailable
from penstock.domain.ids import RequestId
from penstock.domain.tenancy.ledger import LedgerRow


@dataclass(slots=True, kw_only=True)
class Delivered:
    """How many rows came to the ledger, why it refused which, and the files that still hold something."""

    rows: int = 0
    refused: dict[RequestId, str] = field(default_factory=dict)
    left: tuple[Path, ...] = ()


def deliver(folder: Path, dsn: str, clock: Clock) -> Delivered:
    """Deliver what processes that have ended left there, or raise ``CommandError``."""
    if not folder.is_dir():
        raise CommandError(f"There is no spool in {folder}.", do="Name the folder `spool` of a gateway's home.")
    return asyncio.run(_deliver(folder, dsn, clock))


async def _deliver(folder: Path, dsn: str, clock: Clock) -> Delivered:
    done = Delivered()

    def note(row: LedgerRow, why: str) -> None:
        done.refused[row.request] = why

    try:
        spool = Spool(folder, clock, note)
        async with Database(dsn, max_connections=1) as database:
            try:
                done.rows = await spool.deliver(PostgresLedger(database)) - len(done.refused)
            finally:
                spool.leave()
    except StoreUnavailable as error:
        raise CommandError(
            f"The database is away: {error.message}. What was not delivered stays in {folder}.",
            do="Check PENSTOCK_DATABASE_URL and its password file, and run this again: no row is counted twice.",
        ) from error
    except OSError as error:
        raise CommandError(
            f"The spool in {folder} can't be used: {error.strerror or error}.",
            do="Mount it so that it can be written, as the user that the gateway ran as.",
        ) from error
    done.left = await asyncio.to_thread(_left, folder)
    return done


def _left(folder: Path) -> tuple[Path, ...]:
    return tuple(sorted(path for path in folder.iterdir() if path.suffix != ".lock"))
