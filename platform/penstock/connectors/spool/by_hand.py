"""Delivers, on an operator's command, the spool of a gateway that will not start again. A gateway that starts in the
folder delivers it itself.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from penstock.connectors.spool.segment import Closed, lines
from penstock.connectors.spool.spool import Row, Sink, Spool
from penstock.domain.clock import Clock
from penstock.domain.command_error import CommandError
from penstock.domain.errors import StoreUnavailable
from penstock.domain.ids import RequestId


@dataclass(slots=True, kw_only=True)
class Delivered:
    rows: int = 0
    refused: dict[RequestId, str] = field(default_factory=dict)
    left: tuple[Path, ...] = ()


async def deliver(folder: Path, ledger: Sink, clock: Clock, audit: Callable[[], Awaitable[None]]) -> Delivered:
    if not await asyncio.to_thread(folder.is_dir):
        raise CommandError(f"There is no spool in {folder}.", do="Name the folder `spool` of a gateway's home.")
    done = Delivered()

    def note(row: Row, why: str) -> None:
        done.refused[row.request] = why

    try:
        await audit()
        spool = Spool(folder, clock, note)
        try:
            done.rows = await spool.deliver(ledger) - len(done.refused)
        finally:
            spool.leave()
    except StoreUnavailable as error:
        raise CommandError(
            f"The database is away: {error.message}. Undelivered rows stay in {folder}.",
            do="Check PENSTOCK_DATABASE_URL and its password file, and run this again: no row is counted twice.",
        ) from error
    except OSError as error:
        raise CommandError(
            f"The spool in {folder} can't be used: {error.strerror or error}.",
            do="Mount it so that it can be written, as the user that the gateway ran as.",
        ) from error
    done.left = await asyncio.to_thread(_left, folder)
    return done


def waiting(folder: Path) -> int:
    """Ended requests' rows that are not in the ledger; delivered ones are deleted."""
    rows = 0
    for path in folder.glob("*.jsonl"):
        with suppress(FileNotFoundError):  # delivered meanwhile
            rows += sum(isinstance(line, Closed) for line in lines(path))
    return rows


def _left(folder: Path) -> tuple[Path, ...]:
    return tuple(sorted(path for path in folder.iterdir() if path.suffix != ".lock"))
