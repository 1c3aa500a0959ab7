"""Workers without a controller: find, drain, kill them. Only the controller starts workers."""

import asyncio
import signal
from collections.abc import Sequence
from pathlib import Path

from penstock.connectors.process import identity
from penstock.connectors.process.records import ProcessRecord, Records

FOLDER = "workers"
POLL_S = 0.1


def living(run: Path) -> list[ProcessRecord]:
    return [record for record in Records(run / FOLDER).all() if _lives(record)]


async def drain(run: Path, grace_s: float) -> int:
    alive = living(run)
    for record in alive:
        identity.send(record.pid, record.start, signal.SIGTERM)
    for _ in range(int(grace_s / POLL_S) + 1):
        alive = [record for record in alive if _lives(record)]
        if not alive:
            break
        await asyncio.sleep(POLL_S)
    kill(alive)
    _forget_ended(run)
    return len(alive)


def kill(records: Sequence[ProcessRecord]) -> None:
    for record in records:
        identity.kill_group(record.pid, record.start)


def _forget_ended(run: Path) -> None:
    """The next controller would count drained workers as crashes."""
    records = Records(run / FOLDER)
    for record in list(records.all()):
        if not _lives(record):
            records.remove(record.worker)


def _lives(record: ProcessRecord) -> bool:
    return bool(record.start) and identity.started(record.pid) == record.start
