"""The listening process: uvicorn's server with the platform's connections, a sweep over their time limits, and a drain.

The first SIGTERM or SIGINT drains it: it stops accepting, running streams may end within the grace period, further
answers have ``connection: close``, and idle connections stay a moment for requests on the wire. A second signal ends it
at once. SIGUSR2 drains it without a time limit; a SIGTERM after that begins the grace period. An inherited socket stays
open in the other processes that hold it, so a successor takes over without a refused connection.
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
from penstock.intake.connection import Connection, Drain, EdgeConfig
from penstock.intake.held import Intake
from penstock.intake.limits import Limits
from penstock.intake.types import App, Refusal
from penstock.lateness.awake import awake_time

SWEEP_EVERY_TICKS = 5
"""uvicorn ticks ten times a second."""
DRAIN_STEP_S = 0.05
CANCEL_S = 1.0
"""Seconds in which cancelled requests may send an error to their clients."""
BACKLOG = 2048


def _nothing() -> None: ...


def configure(
    app: App,
    limits: Limits,
    intake: Intake,
    *,
    answer: Callable[[PenstockError, RequestId], Refusal],
    ids: Callable[[], str],
    drain: Drain | None = None,
) -> EdgeConfig:
    """Return uvicorn's configuration: uvloop, httptools, the platform's connections, and no logs or headers of
    uvicorn's.
    """
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
    config.addresses, config.drain = intake.addresses, drain or Drain()
    config.limits, config.answer, config.ids = limits, answer, ids
    return config


class EdgeServer(Server):
    """Serves until it is stopped; ``on_drain`` is called when draining begins."""

    config: EdgeConfig

    def __init__(self, config: EdgeConfig, on_drain: Callable[[], None] = _nothing) -> None:
        super().__init__(config)
        self._on_drain = on_drain
        self._is_patient = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, with few unsent bytes in the kernel, which would hide a slow reader behind megabytes."""
        for listener in sockets or []:
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, self.config.limits.write_buffer_bytes)
        await super().startup(sockets)

    async def on_tick(self, counter: int) -> bool:
        if counter % SWEEP_EVERY_TICKS == 0:
            self._sweep()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
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
        bounded_from = started
        while self.server_state.connections and not self.force_exit:
            if self._is_patient:
                bounded_from = loop.time()
            elif loop.time() - bounded_from >= limits.drain_grace_s:
                return
            spent_s = loop.time() - started
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
        now = awake_time().seconds()
        for connection in self._connections():
            connection.sweep(now)

    def _connections(self) -> list[Connection]:
        return [c for c in self.server_state.connections if isinstance(c, Connection)]

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals while serving; none is raised again, since a drained process has ended well."""
        signals = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR2)
        kept = {sig: signal.signal(sig, self.handle_exit) for sig in signals}
        try:
            yield
        finally:
            for sig, handler in kept.items():
                signal.signal(sig, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        del frame
        is_patient, self._is_patient = self._is_patient, sig == signal.SIGUSR2 and not self.should_exit
        self.force_exit = self.should_exit and not is_patient
        self.should_exit = True
