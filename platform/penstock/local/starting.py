"""The phases of a start, in order; each needs those before it."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from functools import partial

from penstock.apps.models import ensure_demo
from penstock.connectors.postgres import roles
from penstock.domain.clock import Clock
from penstock.domain.ids import Alias
from penstock.local import certificates, connections, database, home, observing, seed, services
from penstock.local.gateways import LocalGateways, wanted
from penstock.local.restarts import Restarts
from penstock.local.screen import Phase
from penstock.local.shutdown import PlatformParts
from penstock.packaging.demo import version_names
from penstock.packaging.demo_models import DEMO_MODELS
from penstock.packaging.packing import Packed
from penstock.settings import Settings
from penstock.supervision import listening
from penstock.supervision.child import Child, Command
from penstock.supervision.files import write_private
from penstock.supervision.supervisor import ChildSpec, Supervisor
from penstock.worker.engines import lifeline

GRPC_SETTING = "PENSTOCK_GRPC_PORT"
Work = Callable[[Phase], Awaitable[None]]


class Start:
    def __init__(
        self, settings: Settings, parts: PlatformParts, clock: Clock, report: Callable[[str], None], restarts: Restarts
    ) -> None:
        self.most_gateways = 0
        """Gateways at most, if their number is scaled."""
        self._restarts = restarts
        self.settings = settings
        self._parts = parts
        self._clock = clock
        self._report = report
        self._demo: dict[Alias, Packed] = {}

    @property
    def phases(self) -> tuple[tuple[str, Work], ...]:
        return (
            ("home and keys", self._prepare_home),
            ("database", self._start_database),
            ("models", self._prepare_models),
            ("tenants and aliases", self._seed),
            ("controller", self._start_controller),
            ("gateway", self._start_gateways),
            *((("jobs", self._start_runners),) if self.settings.job_runners else ()),
            *((("observability", self._start_observers),) if self.settings.observe else ()),
            ("workers", self._await_workers),
        )

    async def _prepare_home(self, phase: Phase) -> None:
        paths = self.settings.paths
        is_new = home.prepare(paths)
        services.forget_ended(paths.run)
        observing.forget(paths)
        certificates.ensure(self.settings, self._clock)
        self._parts.listener = listening.bind(self.settings.host, self.settings.port)
        port = self._parts.listener.getsockname()[1]
        grpc = listening.reserve(self.settings.host, self.settings.grpc_port, behind=port, setting=GRPC_SETTING)
        self._parts.grpc_listener = grpc
        self.settings = self.settings.model_copy(update={"port": port, "grpc_port": grpc.getsockname()[1]})
        await self._start_engines_parent()
        found = f"{paths.root} ({'new' if is_new else 'found'})"
        phase.result(", ".join(filter(None, (found, f"port {port}", certificates.told(self.settings)))))

    async def _start_engines_parent(self) -> None:
        if not services.wants_engines_parent(self.settings):
            return
        end, self._parts.lifeline = lifeline.make()
        command = partial(services.engines_parent, self.settings, end)
        self._parts.engines_parent = self._supervisor(command, services.always_ready, services.is_not_stopped)
        await self._parts.engines_parent.launch()
        address = str(self.settings.paths.run / services.ENGINES_SOCKET)
        self.settings = self.settings.model_copy(update={"zygote_socket": address})

    async def _start_database(self, phase: Phase) -> None:
        self._restarts.expect(database.NAME)
        address = await self._parts.database.start()
        applied = await seed.migrate(address)
        self.settings = self.settings.model_copy(update={"database_url": address})
        if self._parts.database.server:
            await seed.let_in(address)
        await seed.claim(self.settings)
        phase.result(f"{'embedded' if self._parts.database.server else 'external'}, {applied} migrations applied")

    async def _prepare_models(self, phase: Phase) -> None:
        self._demo = await ensure_demo(self.settings, phase.note)
        phase.result(", ".join(packed.id for packed in self._demo.values()))

    async def _seed(self, phase: Phase) -> None:
        async with seed.opened(self.settings.database_url) as store:
            seeding = seed.Seed(self.settings, store, self._clock)
            minted = await seeding.tenants()
            await seeding.demo(self._demo, frozenset(version_names(DEMO_MODELS)))
        phase.result(f"{minted} keys minted" if minted else "keys as before")

    async def _start_controller(self, phase: Phase) -> None:
        address = self.settings.paths.controller_address
        address.unlink(missing_ok=True)
        self._parts.controller = self._supervisor(
            partial(services.controller, self._as(roles.CONTROLLER)),
            lambda _: services.controller_is_ready(self.settings, address),
            partial(services.ask, self.settings.paths.run),
        )
        await self._parts.controller.start()
        phase.result((await asyncio.to_thread(address.read_text)).strip())

    @property
    def _listener(self) -> socket.socket:
        listener = self._parts.listener
        assert listener is not None  # noqa: S101  bound in the first phase
        return listener

    async def _start_gateways(self, phase: Phase) -> None:
        self._listener.listen(listening.BACKLOG)
        self._parts.gateways += map(self._gateway, range(1, self.settings.gateways + 1))
        await asyncio.gather(*(supervisor.start() for supervisor in self._parts.gateways))
        url = listening.url_of(self.settings.host, self.settings.port)
        grpc = listening.reached_at(self.settings.host, self.settings.grpc_port)
        write_private(self.settings.paths.gateway_address, url)
        write_private(self.settings.paths.gateway_grpc_address, grpc)
        phase.result(f"{len(self._parts.gateways)} on {url}, gRPC on {grpc}")

    def _gateway(self, number: int) -> Supervisor:
        run = self.settings.paths.run
        most = max(self.settings.gateways, self.most_gateways)
        command = partial(services.gateway, self._as(roles.GATEWAY), number, self._listener.fileno(), most)
        return self._supervisor(command, partial(services.has_ready_file, run), partial(services.ask, run))

    async def _start_runners(self, phase: Phase) -> None:
        self._parts.runners += map(self._runner, range(1, self.settings.job_runners + 1))
        await asyncio.gather(*(supervisor.start() for supervisor in self._parts.runners))
        phase.result(f"{len(self._parts.runners)} runners" if len(self._parts.runners) > 1 else "1 runner")

    def _runner(self, number: int) -> Supervisor:
        run = self.settings.paths.run
        command = partial(services.runner, self._as(roles.RUNNER), number)
        return self._supervisor(command, partial(services.has_ready_file, run), partial(services.ask, run))

    def scaled_gateways(self) -> LocalGateways:
        return LocalGateways(self._parts, self._gateway, partial(wanted, self.settings), self._report)

    async def _start_observers(self, phase: Phase) -> None:
        sites = observing.choose(self.settings)
        observing.prepare(self.settings, sites)
        observing.tell(self.settings, self._parts.pids())
        for command, url in ((observing.alertmanager, sites.alertmanager), (observing.prometheus, sites.prometheus)):
            is_ready = partial(observing.is_ready, url)
            ask = partial(services.ask_at, f"{url}/-/healthy")
            self._parts.observers.append(self._supervisor(partial(command, self.settings, sites), is_ready, ask))
        await asyncio.gather(*(supervisor.start() for supervisor in self._parts.observers))
        observing.announce(self.settings.paths, sites)
        phase.result(f"Prometheus {sites.prometheus}, Alertmanager {sites.alertmanager}")

    async def _await_workers(self, phase: Phase) -> None:
        phase.result(await connections.fleet(self.settings, self._clock).until_ready(phase.note))

    def _as(self, role: str) -> Settings:
        if not self._parts.database.server or self.settings.database_user:
            return self.settings
        return self.settings.model_copy(update={"database_user": role})

    def _supervisor(
        self,
        command: Callable[[], Command],
        ready: Callable[[Child], Awaitable[bool]],
        ask: Callable[[Child], Awaitable[object]],
    ) -> Supervisor:
        made = Supervisor(
            ChildSpec(
                command=command,
                ready=ready,
                ask=ask,
                clock=self._clock,
                report=self._report,
                restarted=self._restarts.note,
            )
        )
        self._restarts.expect(made.name)
        return made
