"""Postgres under the supervisor: the embedded server is started, restarted and stopped; an external one is not
touched.
"""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from penstock.connectors.postgres.embedded import EmbeddedPostgres
from penstock.domain.clock import Clock
from penstock.domain.command_error import CommandError
from penstock.domain.errors import PenstockError, StoreUnavailable
from penstock.lateness.activity import is_stopped
from penstock.local.restarts import Restarts
from penstock.settings import Settings
from penstock.supervision.restarts import Cause, Restart, RestartPolicy, until_silent

NAME = "postgres"
LOOK_EVERY_S = 1.0
STOP_WITHIN_S = 20.0
STOP_POLL_S = 0.1
NOBODY = 1 << 30
"""A process id that no process has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """The supervisor's database; ``server`` is None for an external one."""

    settings: Settings
    server: EmbeddedPostgres | None
    clock: Clock
    report: Callable[[str], None]
    policy: RestartPolicy
    told: Restarts

    @property
    def pid(self) -> int:
        return self.server.pid() if self.server else 0

    async def start(self) -> str:
        if self.server is None:
            return self.settings.database_url
        try:
            return await asyncio.to_thread(self.server.start)
        except (StoreUnavailable, OSError) as error:
            raise CommandError(
                f"The embedded Postgres did not start: {error}.",
                do="Correct the fault in the log, or name another server in PENSTOCK_DATABASE_URL.",
                log=self.settings.paths.logs / "postgres.log",
            ) from error

    async def watch(self) -> None:
        """Whenever the server ends or hangs; ``CommandError`` on a crash loop."""
        deaths: list[float] = []
        while self.server is not None:
            hang = asyncio.create_task(self._kill_if_hung(self.server))
            try:
                while self.server.is_running():  # noqa: ASYNC110  a daemon is nobody's child: no event tells its end
                    await asyncio.sleep(LOOK_EVERY_S)
            finally:
                hang.cancel()
            silent_s = hang.result() if hang.done() and not hang.cancelled() else 0.0
            why = f"did not answer for {silent_s:.0f} s" if silent_s else "is gone"
            self.told.note(Restart(process=NAME, cause=Cause.HUNG if silent_s else Cause.DIED, why=why))
            self.told.database(is_up=False)
            deaths.append(self.clock.monotonic())
            wait_s = self.policy.wait_s(deaths, deaths[-1])
            if wait_s is None:
                raise CommandError("Postgres keeps dying.", log=self.settings.paths.logs / "postgres.log")
            self.report(f"postgres {why}; starting it again in {wait_s:.1f} s")
            await asyncio.sleep(wait_s)
            try:
                await self.start()
            except CommandError as error:  # it died again meanwhile, say in its recovery: one more death, and no end
                self.report(f"postgres: {error}")

    async def _kill_if_hung(self, server: EmbeddedPostgres) -> float:
        silent_s = await until_silent(partial(self._ask, server), lambda: is_stopped(server.pid()))
        await asyncio.to_thread(server.kill)
        return silent_s

    async def _ask(self, server: EmbeddedPostgres) -> None:
        """Accept any answer: a server that refuses does not hang."""
        is_up = False
        try:
            await server.ask()
            is_up = True
        except PenstockError:
            pass
        finally:
            self.told.database(is_up=is_up)

    async def stop(self) -> None:
        if self.server is None:
            return
        try:
            await asyncio.to_thread(self.server.stop)
        except (StoreUnavailable, OSError) as error:
            self.report(f"postgres: {error}; ending it by a signal")
            await self._interrupt(self.server)

    async def _interrupt(self, server: EmbeddedPostgres) -> None:
        with suppress(ProcessLookupError):
            os.kill(server.pid() or NOBODY, signal.SIGINT)
        for _ in range(int(STOP_WITHIN_S / STOP_POLL_S)):
            if not server.is_running():
                return
            await asyncio.sleep(STOP_POLL_S)
        raise CommandError(
            f"Postgres (process {server.pid()}) does not end.", log=self.settings.paths.logs / "postgres.log"
        )


def of(settings: Settings, clock: Clock, report: Callable[[str], None], told: Restarts) -> Database:
    paths = settings.paths
    server = None if settings.database_url else EmbeddedPostgres(paths.postgres, paths.logs / "postgres.log")
    return Database(settings=settings, server=server, clock=clock, report=report, policy=RestartPolicy(), told=told)
