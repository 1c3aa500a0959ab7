"""The gateway's process: starts its sources, then the listeners; it serves from its last good table while others are
unavailable.
"""

import asyncio
import gc
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import uvloop

from penstock.apps import keys, ownership
from penstock.apps.gateway.holding import Telling
from penstock.apps.gateway.parts import Gateway, compose
from penstock.apps.gateway.rpc import Rpc
from penstock.apps.settings.processes import GatewaySettings
from penstock.apps.sharing import limits_of_this_home
from penstock.gateway.upkeep.probes import missing
from penstock.intake.server import EdgeServer
from penstock.lateness.awake import awake_time
from penstock.supervision import exposition
from penstock.supervision.files import ready_file, write_private
from penstock.supervision.listening import bind, reached_at, url_of
from penstock.telemetry import logs, names

TABLE_PATIENCE_S = 2.0
"""Seconds that a start waits for table and keys before serving without them."""
BILLS_WITHIN_S = 3.0
"""Seconds that an ending process waits for workers' usage of its last requests."""
STEP_S = 0.02
GARBAGE_AT = 10_000
"""New objects after which the garbage collector runs: the default of 700 would be every third request."""


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
    gateway = compose(settings, found)
    ready = ready_file(settings.paths.run, os.getpid())
    rpc = gateway.front.rpc
    owner = asyncio.create_task(ownership.known(settings, found))
    _keep(gateway, settings)
    try:
        known = asyncio.wait({owner}, timeout=TABLE_PATIENCE_S)
        await asyncio.gather(known, _until(lambda: not missing(gateway.table, gateway.keys), TABLE_PATIENCE_S))
        _refuse_foreign(owner)
        owner.add_done_callback(lambda _: _end_if_foreign(gateway.server, owner))
        _freeze_heap()
        listener = await _listen(gateway, rpc, settings, fd)
        gateway.background.keep("ready", lambda: _announce(gateway.server, ready))
        gateway.background.keep("demand", gateway.telling.run)
        await gateway.server.serve([listener])
        await rpc.ended()
        logs.logger().info("gateway_ended")
        _refuse_foreign(owner)
    finally:
        ready.unlink(missing_ok=True)
        await rpc.ended()
        await gateway.background.end(BILLS_WITHIN_S)  # they close rows, which the last delivery takes along
        await gateway.background.stop()
        owner.cancel()
        await asyncio.gather(owner, return_exceptions=True)
        await gateway.close()


async def _listen(gateway: Gateway, rpc: Rpc, settings: GatewaySettings, fd: int | None) -> socket.socket:
    listener = socket.socket(fileno=fd) if fd is not None else bind(settings.host, settings.port)
    port = listener.getsockname()[1]
    grpc_port = await rpc.start(settings, port, is_shared=fd is not None)
    if fd is None:
        write_private(settings.paths.gateway_address, url_of(settings.host, port))
        write_private(settings.paths.gateway_grpc_address, reached_at(settings.host, grpc_port))
    place = {"zone": settings.zone, "region": settings.region}
    logs.logger().info("gateway_serves", port=port, number=gateway.table.number, **place)
    return listener


def _keep(gateway: Gateway, settings: GatewaySettings) -> None:
    awake_time().on_look = partial(_late, gateway.metrics.histogram(names.LOOP_LAG_SECONDS).observe, gateway.telling)
    keep = gateway.background.keep
    keep("keys", lambda: gateway.key_source.run(gateway.news.keys_came))
    keep("table", lambda: gateway.table_source.run(gateway.news.table_came))
    keep(
        "metrics",
        lambda: exposition.serve(settings.metrics_address, settings.paths.run, gateway.exposition, gateway.pages),
    )
    keep("accounting", gateway.accounting.run)
    keep("records", gateway.recording.folder.run)
    keep("refusals", gateway.recording.crowd.run)
    keep("evidence", gateway.evidence.run)
    keep("health", gateway.health_watch.run)
    keep("prober", gateway.health_watch.prober.run)
    keep("revoked", gateway.news.end_revoked)
    keep("platform_keys", lambda: keys.follow(settings, gateway.exchange))


def _late(observe: Callable[[float], None], telling: Telling, lag_s: float) -> None:
    observe(lag_s)
    telling.demand.late(lag_s)


def _refuse_foreign(owner: "asyncio.Task[None]") -> None:
    if owner.done() and not owner.cancelled():
        owner.result()


def _end_if_foreign(server: EdgeServer, owner: "asyncio.Task[None]") -> None:
    if not owner.cancelled() and owner.exception() is not None:
        server.should_exit = True


def _freeze_heap() -> None:
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE_AT)


async def _announce(server: EdgeServer, ready: Path) -> None:
    await _until(lambda: server.started, None)
    write_private(ready, str(os.getpid()))


async def _until(condition: Callable[[], bool], within_s: float | None) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            while not condition():  # noqa: ASYNC110  what it looks at has no events
                await asyncio.sleep(STEP_S)
