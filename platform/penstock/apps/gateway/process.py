"""The gateway's process: starts its sources, then the listeners; it serves from its last good table while others are
unavailable.
"""

import asyncio
import gc
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import uvloop

from penstock.apps import keys, ownership
from penstock.apps.gateway.front import front
from penstock.apps.gateway.parts import BILLS_WITHIN_S, Parts, compose
from penstock.apps.gateway.rpc import Rpc
from penstock.apps.keys import Keys
from penstock.apps.sharing import limits_of_this_home
from penstock.apps.stores import database_dsn
from penstock.connectors.postgres.deletions import HeardDeletions
from penstock.connectors.postgres.tenant_keys import follow
from penstock.intake.server import EdgeServer
from penstock.settings.processes import GatewaySettings
from penstock.supervision import exposition
from penstock.supervision.files import ready_file, write_private
from penstock.supervision.listening import bind, reached_at, url_of
from penstock.telemetry import logs

TABLE_PATIENCE_S = 2.0
"""Seconds that a start waits for table and keys before serving without them."""
STEP_S = 0.02


def main(settings: GatewaySettings, fd: int | None = None) -> None:
    """Run until SIGTERM or SIGINT; ``fd`` is an inherited listening socket."""
    logs.configure("gateway", level=settings.log_level)
    keys.check_files(settings, GatewaySettings)
    if fd is None:
        exposition.check_port(settings.metrics_address)
    with limits_of_this_home(settings, is_supervised=fd is not None):
        uvloop.run(_main(settings, fd))


async def _main(settings: GatewaySettings, fd: int | None) -> None:
    found = keys.read(settings)
    parts = compose(settings, found)
    served = front(settings, parts)
    keep = parts.background.keep
    async with running(parts, found, partial(_end, served.server)) as ready:
        try:
            heard = HeardDeletions(served.answers.forget, parts.shared.clock.now())
            keep("revoked", parts.news.end_revoked)
            keep("tenant_keys", partial(follow, database_dsn(settings), served.keys.tenants, heard.look))
            _freeze_heap()
            listener = await _listen(parts, served.rpc, settings, fd)
            keep("ready", lambda: _announce(served.server, ready))
            keep("demand", parts.telling.run)
            async with served.database:
                await served.server.serve([listener])
                await parts.background.end(BILLS_WITHIN_S)  # responses of the last seconds are still being kept
        finally:
            await served.rpc.ended()
        logs.logger().info("gateway_ended")


@asynccontextmanager
async def running(parts: Parts, found: Keys, end: Callable[[], None]) -> AsyncIterator[Path]:
    """Run the loops beside the pipeline, and yield the file that says that this process is ready.

    Raises ``CommandError`` if the database is another platform's; a later finding calls ``end``.
    """
    settings = parts.shared.settings
    ready = ready_file(settings.paths.run, os.getpid())
    owner = asyncio.create_task(ownership.known(settings, found))
    parts.keep()
    try:
        asked = asyncio.wait({owner}, timeout=TABLE_PATIENCE_S)
        await asyncio.gather(asked, _until(lambda: not parts.missing, TABLE_PATIENCE_S))
        ownership.refuse_foreign(owner)
        owner.add_done_callback(partial(ownership.if_foreign, end))
        yield ready
        ownership.refuse_foreign(owner)
    finally:
        ready.unlink(missing_ok=True)
        owner.cancel()
        await asyncio.gather(owner, return_exceptions=True)
        await parts.close()


async def _listen(parts: Parts, rpc: Rpc, settings: GatewaySettings, fd: int | None) -> socket.socket:
    listener = socket.socket(fileno=fd) if fd is not None else bind(settings.host, settings.port)
    port = listener.getsockname()[1]
    grpc_port = await rpc.start(settings, port, is_shared=fd is not None)
    if fd is None:
        write_private(settings.paths.gateway_address, url_of(settings.host, port))
        write_private(settings.paths.gateway_grpc_address, reached_at(settings.host, grpc_port))
    place = {"zone": settings.zone, "region": settings.region}
    logs.logger().info("gateway_serves", port=port, number=parts.shared.table.number, **place)
    return listener


def _end(server: EdgeServer) -> None:
    server.should_exit = True


def _freeze_heap() -> None:
    gc.collect()
    gc.freeze()


async def _announce(server: EdgeServer, ready: Path) -> None:
    await _until(lambda: server.started, None)
    write_private(ready, str(os.getpid()))


async def _until(condition: Callable[[], bool], within_s: float | None) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            while not condition():  # noqa: ASYNC110  what it looks at has no events
                await asyncio.sleep(STEP_S)
