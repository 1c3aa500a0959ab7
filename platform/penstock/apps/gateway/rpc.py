"""gRPC beside HTTP: where it listens, and its part in the end of the process. The library is imported at the start."""

import asyncio
from contextlib import ExitStack

from penstock.apps.gateway.front import Front
from penstock.apps.settings import GatewaySettings
from penstock.domain.command_error import CommandError
from penstock.supervision import listening

SETTING = "PENSTOCK_GRPC_PORT"


class Rpc:
    """The server of one gateway."""

    def __init__(self, front: Front) -> None:
        from penstock.gateway.oip.grpc.server import RpcServer

        self._server = RpcServer(front.edge, front.facts)
        self._draining: asyncio.Task[None] | None = None

    async def start(self, settings: GatewaySettings, http_port: int, *, is_shared: bool) -> int:
        """Listen, and return the port; a shared one has been reserved by whoever started this process."""
        with ExitStack() as held:
            port = settings.grpc_port
            if not (port and is_shared):
                behind = listening.reserve(settings.host, port, behind=http_port, setting=SETTING)
                port = held.enter_context(behind).getsockname()[1]
            try:
                return await self._server.start(listening.authority(settings.host, port))
            except OSError as error:
                what = f"Can't listen at port {port} for gRPC."
                raise CommandError(what, do=f"Choose another in {SETTING}.") from error

    def drain(self) -> None:
        """Begin to drain."""
        if self._draining is None:
            self._draining = asyncio.get_running_loop().create_task(self._server.drain())

    async def ended(self) -> None:
        """Wait until it is drained."""
        self.drain()
        assert self._draining is not None  # noqa: S101  begun above
        await self._draining
