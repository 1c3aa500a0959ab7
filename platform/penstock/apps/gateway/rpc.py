"""The gRPC server beside HTTP: its listener and drain. The library is imported at the start."""

import asyncio
from contextlib import ExitStack
from typing import TYPE_CHECKING

from penstock.domain.command_error import CommandError
from penstock.gateway.openai.services import Facts, Services
from penstock.settings.processes import GatewaySettings
from penstock.supervision import listening

if TYPE_CHECKING:
    from penstock.gateway.oip.grpc.server import RpcServer

SETTING = "PENSTOCK_GRPC_PORT"


class Rpc:
    def __init__(self, services: Services, facts: Facts) -> None:
        self._services, self._facts = services, facts
        self._server: RpcServer | None = None
        self._draining: asyncio.Task[None] | None = None

    async def start(self, settings: GatewaySettings, http_port: int, *, is_shared: bool) -> int:
        """Start the server and return its port: the configured one if gateways share it, else one reserved here."""
        from penstock.gateway.oip.grpc.server import RpcServer

        self._server = server = RpcServer(self._services, self._facts)
        with ExitStack() as held:
            port = settings.grpc_port
            if not (port and is_shared):
                behind = listening.reserve(settings.host, port, behind=http_port, setting=SETTING)
                port = held.enter_context(behind).getsockname()[1]
            try:
                return await server.start(settings.host, port)
            except OSError as error:
                what = f"Can't listen at port {port} for gRPC."
                raise CommandError(what, do=f"Choose another in {SETTING}.") from error

    def drain(self) -> None:
        if self._draining is None and self._server is not None:
            self._draining = asyncio.get_running_loop().create_task(self._server.drain())

    async def ended(self) -> None:
        self.drain()
        if self._draining is not None:
            await self._draining
