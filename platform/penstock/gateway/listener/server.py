"""The listening process: uvicorn's server with our connections, a sweep over their time limits, and a drain.

Draining (first SIGTERM or SIGINT): stop accepting; running streams go on to their end, bounded by the grace; every
further answer says ``connection: close``; idle connections stay for a moment, because a request may be on the wire.
A second signal ends it at once. A listening socket that was inherited stays open with its other holders, so a
successor takes over without a refused connection.
"""

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Iterator
from types import FrameType

from uvicorn import Server

from penstock.domain.errors import PenstockError
from penstock.domain.ids import RequestId
from penstock.gateway.calls.call import nothing
from penstock.gateway.listener.addresses import Addresses
from penstock.gateway.listener.connection import Connection, Drain, EdgeConfig
from penstock.gateway.listener.limits import Limits
from penstock.gateway.listener.types import App

SWEEP_EVERY_TICKS = 5
"""uvicorn ticks ten times a second."""
DRAIN_STEP_S = 0.05
CANCEL_S = 1.0
"""How long cut-off requests have to say so to their clients."""
BACKLOG = 2048


def configure(
    app: App,
    limits: Limits,
    *,
    refused: Callable[[PenstockError, RequestId], None],
    ids: Callable[[], str],
    drain: Drain | None = None,
) -> EdgeConfig:
    """Return uvicorn's configuration: uvloop, httptools with our connections, none of its logs or headers."""
    config = EdgeConfig(
        app,
        http=Connection,
        loop="uvloop",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
    )
    config.addresses, config.drain = Addresses(limits.connections), drain or Drain()
    config.limits, config.refused, config.ids = limits, refused, ids
    return config


class EdgeServer(Server):
    """Serves until told to stop."""

    config: EdgeConfig

    def __init__(self, config: EdgeConfig, on_drain: Callable[[], None] = nothing) -> None:
        """``on_drain`` is called when draining begins."""
        super().__init__(config)
        self._on_drain = on_drain

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen. The kernel would hide a slow reader behind megabytes of its own; it gets no more than we hold."""
        for listener in sockets or []:
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, self.config.limits.write_buffer_bytes)
        await super().startup(sockets)

    async def on_tick(self, counter: int) -> bool:
        """Look at the connections' time limits twice a second."""
        if counter % SWEEP_EVERY_TICKS == 0:
            self._sweep()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Drain, then cut off what is left."""
        self.config.drain.is_on = True
        self._on_drain()
        for server in self.servers:
            server.close()
        for listener in sockets or []:
            listener.close()
        for connection in self._connections():
            connection.shutdown()
        await self._drain()
        await self._cut_off()

    async def _drain(self) -> None:
        loop = asyncio.get_running_loop()
        limits, started = self.config.limits, loop.time()
        while self.server_state.connections and not self.force_exit:
            spent_s = loop.time() - started
            if spent_s >= limits.drain_grace_s:
                return
            self._sweep()
            if spent_s >= limits.drain_linger_s:
                for connection in self._connections():
                    if connection.is_idle():
                        connection.transport.close()
            await asyncio.sleep(DRAIN_STEP_S)

    async def _cut_off(self) -> None:
        tasks = list(self.server_state.tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CANCEL_S)
        for connection in self._connections():
            connection.transport.close()
        await asyncio.sleep(DRAIN_STEP_S)
        for connection in self._connections():
            connection.transport.abort()

    def _sweep(self) -> None:
        now = asyncio.get_running_loop().time()
        for connection in self._connections():
            connection.sweep(now)

    def _connections(self) -> list[Connection]:
        return [c for c in self.server_state.connections if isinstance(c, Connection)]

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take the signals while serving; a drained process has ended well, so they are not raised again."""
        kept = {sig: signal.signal(sig, self.handle_exit) for sig in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for sig, handler in kept.items():
                signal.signal(sig, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Drain at the first signal, end at the second."""
        del sig, frame
        self.force_exit = self.should_exit
        self.should_exit = True
