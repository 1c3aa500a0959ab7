"""One local platform as a whole: started, watched, restarted part by part, ended."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence

from penstock.domain.clock import Clock
from penstock.domain.command_error import CommandError
from penstock.local import certificates, connections, database, home, observing, question, shutdown, state
from penstock.local.gateways import LocalGateways
from penstock.local.restarts import Restarts
from penstock.local.screen import Screen
from penstock.local.shutdown import PlatformParts
from penstock.local.starting import Start
from penstock.settings import Settings
from penstock.supervision import exposition
from penstock.supervision.listening import url_of
from penstock.supervision.supervisor import Supervisor
from penstock.telemetry.log_files import LogBounds

Request = Callable[[], Awaitable[None]]
SUPERVISOR = "supervisor"
HERE = ("127.0.0.1", 0)
"""The supervisor's own metrics are read only on this machine, at any port."""


class LocalPlatform:
    def __init__(self, settings: Settings, screen: Screen, clock: Clock, most_gateways: int = 0) -> None:
        self._settings = settings
        self._screen = screen
        self._clock = clock
        self._restarts = Restarts(clock)
        self._parts = PlatformParts(database=database.of(settings, clock, screen.say, self._restarts))
        self._state = state.UpState(pid=os.getpid())
        self._requests: asyncio.Queue[Request] = asyncio.Queue()
        self._most_gateways = most_gateways
        self._gateways: LocalGateways | None = None

    async def start(self) -> None:
        self._restarts.log_to(self._settings.paths.logs)
        begun = Start(self._settings, self._parts, self._clock, self._screen.say, self._restarts)
        begun.most_gateways = self._most_gateways
        for title, work in begun.phases:
            self._write_state(phase=title)
            with self._screen.phase(title) as phase:
                await work(phase)
            self._settings = begun.settings
        if self._most_gateways:
            self._gateways = begun.scaled_gateways()
        self._state.url = url_of(self._settings.host, self._settings.port)
        self._write_state(phase="serving", ready=True)

    async def first_question(self) -> None:
        await asyncio.to_thread(question.ask, self._settings, self._screen)

    async def watch(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._parts.database.watch())
                for supervisor in self._parts.vital:
                    group.create_task(supervisor.watch())
                for supervisor in self._parts.spare:
                    group.create_task(self._watch_spare(supervisor))
                if self._gateways is not None:
                    group.create_task(self._gateways.keep())
                group.create_task(self._serve_requests())
                group.create_task(self._keep_state())
                group.create_task(self._keep_logs())
                group.create_task(certificates.keep(self._settings, self._clock))
                group.create_task(exposition.serve(HERE, self._settings.paths.run, self._restarts.metrics.exposition))
        except BaseExceptionGroup as errors:
            raise _first(errors) from errors

    async def _watch_spare(self, supervisor: Supervisor) -> None:
        try:
            await supervisor.watch()
        except CommandError as error:
            self._screen.error(error)

    # -- rolling restarts ----------------------------------------------------------------------------

    def request(self, what: Request) -> None:
        self._requests.put_nowait(what)

    async def _serve_requests(self) -> None:
        while True:
            what = await self._requests.get()
            try:
                await what()
            except CommandError as error:  # a restart that fails leaves what ran before
                self._screen.error(error)

    async def roll_gateways(self) -> None:
        """Replace one by one: each successor serves before its predecessor drains."""
        await self._roll(self._parts.gateways)

    async def roll_runners(self) -> None:
        await self._roll(self._parts.runners)

    async def _roll(self, supervisors: Sequence[Supervisor]) -> None:
        for supervisor in supervisors:
            self._screen.say(f"{supervisor.name}: starting its successor")
            await supervisor.replace(self._settings.drain_grace_s + shutdown.BEYOND_GRACE_S)
            self._screen.say(f"{supervisor.name}: replaced, now process {supervisor.pid}")

    async def roll_workers(self) -> None:
        await connections.fleet(self._settings, self._clock).renew()
        self._screen.say("workers: the controller replaces them one by one")

    # -- end ------------------------------------------------------------------------------------------

    async def drain(self) -> None:
        self._write_state(phase="draining", ready=False)
        await shutdown.drain(self._parts, self._settings, self._screen.say)
        self._write_state(phase="ended")

    async def force(self) -> None:
        await shutdown.force(self._parts, self._settings)
        self._write_state(phase="ended", ready=False)

    # -- what is told ------------------------------------------------------------------------------------

    async def _keep_state(self) -> None:
        while True:
            self._write_state()
            if self._parts.observers:
                observing.tell(self._settings, {SUPERVISOR: os.getpid(), **self._parts.pids()})
            await asyncio.sleep(database.LOOK_EVERY_S)

    async def _keep_logs(self) -> None:
        while True:
            await asyncio.to_thread(home.bound_logs, self._settings.paths, LogBounds())
            await asyncio.sleep(database.LOOK_EVERY_S)

    def _write_state(self, *, phase: str | None = None, ready: bool | None = None) -> None:
        before = repr(self._state)
        self._state.phase = phase if phase is not None else self._state.phase
        self._state.ready = ready if ready is not None else self._state.ready
        self._state.processes = self._parts.pids()
        self._state.restarts = self._restarts.plain()
        if repr(self._state) != before:
            self._settings.paths.run.mkdir(parents=True, exist_ok=True)
            state.write(self._settings.paths.run, self._state)


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    expected = errors.subgroup(CommandError)
    error: BaseException = expected or errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
