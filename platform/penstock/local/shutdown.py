"""The end of a platform, in order: gateways, the controller, the workers, the database."""

import asyncio
import os
from collections.abc import Callable

from penstock.apps.settings import Settings
from penstock.connectors.process import leftovers
from penstock.local import observing
from penstock.local.parts import Parts

BEYOND_GRACE_S = 10.0
"""Seconds beyond the drain's grace period for a process to end by itself."""


async def drain(parts: Parts, settings: Settings, report: Callable[[str], None]) -> None:
    """End everything in order; running answers get the grace period."""
    grace_s = settings.drain_grace_s + BEYOND_GRACE_S
    paths = settings.paths
    await asyncio.gather(*(supervisor.stop(grace_s) for supervisor in parts.gateways))
    for listener in filter(None, (parts.listener, parts.grpc_listener)):
        listener.close()
    for file in (paths.gateway_address, paths.gateway_grpc_address):
        file.unlink(missing_ok=True)
    if parts.controller is not None:
        await parts.controller.stop(grace_s)
        paths.controller_address.unlink(missing_ok=True)
    killed = await leftovers.drain(paths.run, grace_s)
    if killed:
        report(f"{killed} workers did not end within {grace_s:.0f} s and were killed")
    await asyncio.gather(*(supervisor.stop(BEYOND_GRACE_S) for supervisor in parts.spare))
    observing.forget(paths)
    _cut(parts)
    await parts.database.stop()


async def force(parts: Parts, settings: Settings) -> None:
    for supervisor in parts.supervisors:
        supervisor.kill()
    leftovers.kill(leftovers.living(settings.paths.run))
    _cut(parts)
    await parts.database.stop()


def _cut(parts: Parts) -> None:
    if parts.lifeline >= 0:
        os.close(parts.lifeline)
        parts.lifeline = -1
