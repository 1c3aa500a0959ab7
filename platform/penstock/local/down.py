"""`penstock down`: ends a platform from outside its terminal, and the processes that a killed one left behind."""

import asyncio
import os
import signal
import time

from penstock.connectors.process import leftovers
from penstock.domain.clock import SystemClock
from penstock.domain.command_error import CommandError
from penstock.local import database
from penstock.local.restarts import Restarts
from penstock.settings import Settings
from penstock.supervision import lock

BEYOND_GRACE_S = 60.0
POLL_S = 0.1


def stop(settings: Settings) -> str:
    pid = lock.holder(settings.paths.run)
    if pid:
        os.kill(pid, signal.SIGTERM)
        _wait(settings, pid)
        return f"The platform in {settings.paths.root} has drained and ended."
    return asyncio.run(_sweep(settings))


def _wait(settings: Settings, pid: int) -> None:
    patience_s = 2 * settings.drain_grace_s + BEYOND_GRACE_S
    for _ in range(int(patience_s / POLL_S)):
        if lock.holder(settings.paths.run) != pid:
            return
        time.sleep(POLL_S)
    raise CommandError(
        f"The platform (process {pid}) is still draining after {patience_s:.0f} s.",
        do=f"Look at `penstock status`; `kill -9 {pid}` and `penstock down` end it by force.",
    )


async def _sweep(settings: Settings) -> str:
    with lock.HomeLock(settings.paths.run):
        left = len(leftovers.living(settings.paths.run))
        await leftovers.drain(settings.paths.run, settings.drain_grace_s)
        server = database.of(settings, SystemClock(), lambda _: None, Restarts(SystemClock()))
        had_postgres = server.pid != 0
        await server.stop()
    if left or had_postgres:
        return f"No platform ran in {settings.paths.root}; ended what one left behind: {left} workers, " + (
            "Postgres." if had_postgres else "no Postgres."
        )
    return f"No platform runs in {settings.paths.root}."
