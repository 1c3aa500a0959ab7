"""The end of a platform, in order: jobs runners, gateways, the controller, the workers, the database."""

import asyncio
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.connectors.process import leftovers
from penstock.local import observing
from penstock.local.database import Database
from penstock.settings import Settings
from penstock.supervision.supervisor import Supervisor


@dataclass(slots=True, kw_only=True)
class PlatformParts:
    database: Database
    listener: socket.socket | None = None
    grpc_listener: socket.socket | None = None
    """Reserves the port that gateways share; it never listens itself."""
    controller: Supervisor | None = None
    gateways: list[Supervisor] = field(default_factory=list)
    runners: list[Supervisor] = field(default_factory=list)
    engines_parent: Supervisor | None = None
    observers: list[Supervisor] = field(default_factory=list)
    lifeline: int = -1

    @property
    def vital(self) -> list[Supervisor]:
        return [*self.gateways, *self.runners, *([self.controller] if self.controller else [])]

    @property
    def spare(self) -> list[Supervisor]:
        return [*([self.engines_parent] if self.engines_parent else []), *self.observers]

    @property
    def supervisors(self) -> list[Supervisor]:
        return [*self.vital, *self.spare]

    def pids(self) -> dict[str, int]:
        return {"postgres": self.database.pid, **{supervisor.name: supervisor.pid for supervisor in self.supervisors}}


BEYOND_GRACE_S = 10.0
"""Seconds beyond the drain's grace period for a process to end by itself."""


async def drain(parts: PlatformParts, settings: Settings, report: Callable[[str], None]) -> None:
    """End everything in order; running answers get the grace period."""
    grace_s = settings.drain_grace_s + BEYOND_GRACE_S
    paths = settings.paths
    await asyncio.gather(*(supervisor.stop(grace_s) for supervisor in (*parts.runners, *parts.gateways)))
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


async def force(parts: PlatformParts, settings: Settings) -> None:
    for supervisor in parts.supervisors:
        supervisor.kill()
    leftovers.kill(leftovers.living(settings.paths.run))
    _cut(parts)
    await parts.database.stop()


def _cut(parts: PlatformParts) -> None:
    if parts.lifeline >= 0:
        os.close(parts.lifeline)
        parts.lifeline = -1
