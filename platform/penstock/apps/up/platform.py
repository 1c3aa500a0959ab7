"""One local platform as a whole: started phase by phase, watched, rolled, drained in order."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from functools import partial

from penstock.apps.models.demo import DEMO_MODELS, ensure_demo, version_names
from penstock.apps.models.packing import Packed
from penstock.apps.settings import Settings
from penstock.apps.trouble import Trouble
from penstock.apps.up import database, home, listening, question, seed, services, state, workers
from penstock.apps.up.fleet import FleetWatch
from penstock.apps.up.keeper import Care, Keeper
from penstock.apps.up.screen import Phase, Screen
from penstock.domain.clock import Clock
from penstock.domain.ids import Alias
from penstock.worker.engines import lifeline

Request = Callable[[], Awaitable[None]]
BEYOND_GRACE_S = 10.0
"""What a process gets on top of the drain grace to end by itself."""


class LocalPlatform:
    """Everything that runs in one home."""

    def __init__(self, settings: Settings, screen: Screen, clock: Clock) -> None:
        """Start nothing yet."""
        self._settings = settings
        self._screen = screen
        self._clock = clock
        self._database = database.of(settings, clock, screen.say)
        self._listener: socket.socket | None = None
        self._controller: Keeper | None = None
        self._gateways: list[Keeper] = []
        self._demo: dict[Alias, Packed] = {}
        self._state = state.UpState(pid=os.getpid())
        self._engines_parent: Keeper | None = None
        self._lifeline = -1
        self._requests: asyncio.Queue[Request] = asyncio.Queue()

    def request(self, what: Request) -> None:
        """Have something done between two looks at the processes; one after another."""
        self._requests.put_nowait(what)

    # -- start ---------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Bring everything up, in order."""
        for title, work in (
            ("home and keys", self._prepare_home),
            ("database", self._start_database),
            ("models", self._prepare_models),
            ("tenants and aliases", self._seed),
            ("controller", self._start_controller),
            ("gateway", self._start_gateways),
            ("workers", self._await_workers),
        ):
            self._tell_state(phase=title)
            with self._screen.phase(title) as phase:
                await work(phase)
        self._tell_state(phase="serving", ready=True)

    async def _prepare_home(self, phase: Phase) -> None:
        paths = self._settings.paths
        is_new = home.prepare(paths)
        self._listener = listening.bind(self._settings.host, self._settings.port)
        port = self._listener.getsockname()[1]
        self._settings = self._settings.model_copy(update={"port": port})
        await self._start_engines_parent()
        phase.result(f"{paths.root} ({'new' if is_new else 'found'}), port {port}")

    async def _start_engines_parent(self) -> None:
        """Let the engines' imports go on beside everything that comes before them."""
        if not services.wants_engines_parent(self._settings):
            return
        end, self._lifeline = lifeline.make()
        self._engines_parent = Keeper(
            Care(
                command=partial(services.engines_parent, self._settings, end),
                ready=services.always_ready,
                clock=self._clock,
                tell=self._screen.say,
            )
        )
        await self._engines_parent.launch()
        socket_path = str(self._settings.paths.run / services.ENGINES_SOCKET)
        self._settings = self._settings.model_copy(update={"zygote_socket": socket_path})

    async def _start_database(self, phase: Phase) -> None:
        address = await self._database.start()
        applied = await seed.migrate(address)
        self._settings = self._settings.model_copy(update={"database_url": address})
        phase.result(f"{'embedded' if self._database.server else 'external'}, {applied} migrations applied")

    async def _prepare_models(self, phase: Phase) -> None:
        self._demo = await ensure_demo(self._settings, phase.note)
        phase.result(", ".join(packed.id for packed in self._demo.values()))

    async def _seed(self, phase: Phase) -> None:
        async with seed.opened(self._settings.database_url) as store:
            seeding = seed.Seed(self._settings, store, self._clock)
            minted = await seeding.tenants()
            await seeding.demo(self._demo, frozenset(version_names(DEMO_MODELS)))
        phase.result(f"{minted} keys minted" if minted else "keys as before")

    async def _start_controller(self, phase: Phase) -> None:
        address = self._settings.paths.controller_address
        address.unlink(missing_ok=True)
        self._controller = Keeper(
            Care(
                command=lambda: services.controller(self._settings),
                ready=lambda _: services.controller_is_ready(address),
                clock=self._clock,
                tell=self._screen.say,
                poll_s=0.1,
            )
        )
        await self._controller.start()
        phase.result((await asyncio.to_thread(address.read_text)).strip())

    async def _start_gateways(self, phase: Phase) -> None:
        assert self._listener is not None  # noqa: S101  bound in the first phase
        services.forget_gateways(self._settings.paths.run)
        self._listener.listen(listening.BACKLOG)
        for number in range(1, self._settings.gateways + 1):
            self._gateways.append(Keeper(self._gateway_care(number, self._listener.fileno())))
        await asyncio.gather(*(keeper.start() for keeper in self._gateways))
        url = listening.url_of(self._settings.host, self._settings.port)
        home.write_private(self._settings.paths.gateway_address, url)
        self._state.url = url
        phase.result(f"{len(self._gateways)} on {url}")

    def _gateway_care(self, number: int, fd: int) -> Care:
        return Care(
            command=lambda: services.gateway(self._settings, number, fd),
            ready=partial(services.gateway_is_ready, self._settings.paths.run),
            clock=self._clock,
            tell=self._screen.say,
        )

    async def _await_workers(self, phase: Phase) -> None:
        phase.result(await FleetWatch(self._settings, self._clock).until_ready(phase.note))

    async def first_question(self) -> None:
        """Show how to use the platform, and that it works."""
        await asyncio.to_thread(question.ask, self._settings, self._screen)

    # -- run ------------------------------------------------------------------------------------------

    async def watch(self) -> None:
        """Keep everything running; return only by raising ``Trouble`` or being cancelled."""
        self._tell_state()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._database.watch())
                for keeper in self._keepers:
                    group.create_task(keeper.watch())
                group.create_task(self._watch_engines_parent())
                group.create_task(self._serve_requests())
                group.create_task(self._keep_state())
        except BaseExceptionGroup as errors:
            raise _first(errors) from errors

    async def _watch_engines_parent(self) -> None:
        """Keep the engines' parent; without it engines start all the same, slower."""
        if self._engines_parent is not None:
            try:
                await self._engines_parent.watch()
            except Trouble as trouble:
                self._screen.trouble(trouble)

    async def _serve_requests(self) -> None:
        while True:
            what = await self._requests.get()
            try:
                await what()
            except Trouble as trouble:  # a restart that fails leaves what ran before
                self._screen.trouble(trouble)

    async def roll_gateways(self) -> None:
        """Replace the gateways one by one: each successor serves before its predecessor drains."""
        for number, keeper in enumerate(self._gateways, start=1):
            self._screen.say(f"gateway {number}: starting its successor")
            await keeper.replace(self._grace_s)
            self._screen.say(f"gateway {number}: replaced, now process {keeper.child.pid}")

    async def roll_workers(self) -> None:
        """Have the controller replace all workers, one at a time."""
        await FleetWatch(self._settings, self._clock).renew()
        self._screen.say("workers: the controller replaces them one by one")

    async def _keep_state(self) -> None:
        while True:
            self._tell_state()
            await asyncio.sleep(database.LOOK_EVERY_S)

    # -- end ------------------------------------------------------------------------------------------

    async def drain(self) -> None:
        """End everything in order: gateways, then who would restart workers, then workers, then the database."""
        self._tell_state(phase="draining", ready=False)
        await asyncio.gather(*(keeper.stop(self._grace_s) for keeper in self._gateways))
        if self._listener is not None:
            self._listener.close()
        self._settings.paths.gateway_address.unlink(missing_ok=True)
        if self._controller is not None:
            await self._controller.stop(self._grace_s)
            self._settings.paths.controller_address.unlink(missing_ok=True)
        killed = await workers.drain(self._settings.paths.run, self._grace_s)
        if self._engines_parent is not None:
            await self._engines_parent.stop(BEYOND_GRACE_S)
        if killed:
            self._screen.say(f"{killed} workers did not end within {self._grace_s:.0f} s and were killed")
        await self._database.stop()
        self._tell_state(phase="ended")

    async def force(self) -> None:
        """End everything at once; the database still in good order, which takes it a moment."""
        for keeper in (*self._keepers, *([self._engines_parent] if self._engines_parent else [])):
            keeper.kill()
        workers.kill(workers.living(self._settings.paths.run))
        await self._database.stop()
        self._tell_state(phase="ended")

    # -- what is told ------------------------------------------------------------------------------------

    @property
    def _grace_s(self) -> float:
        return self._settings.drain_grace_s + BEYOND_GRACE_S

    @property
    def _keepers(self) -> list[Keeper]:
        return [*self._gateways, *([self._controller] if self._controller else [])]

    def _tell_state(self, *, phase: str | None = None, ready: bool | None = None) -> None:
        """Write the state where something about it is new."""
        before = repr(self._state)
        self._state.phase = phase if phase is not None else self._state.phase
        self._state.ready = ready if ready is not None else self._state.ready
        running = {keeper.name: keeper.pid for keeper in self._keepers}
        self._state.processes = {"postgres": self._database.pid, **running}
        if repr(self._state) != before:
            self._settings.paths.run.mkdir(parents=True, exist_ok=True)
            state.write(self._settings.paths.run, self._state)


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first trouble of a group, or its first error."""
    troubles = errors.subgroup(Trouble)
    error: BaseException = troubles or errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
