"""Evidence of versions that share an alias: counted as requests end, told to the controllers each second."""

import os
import secrets
import socket
from dataclasses import dataclass

from penstock.connectors.postgres.arms import PostgresArms
from penstock.connectors.postgres.database import Database
from penstock.domain.clock import Clock
from penstock.domain.ids import Alias
from penstock.gateway.evidence import Arms, Shared
from penstock.gateway.routing import CurrentTable, sticky_key


@dataclass(frozen=True, slots=True)
class Evidence:
    """The counts, and the way to the store."""

    arms: Arms
    dsn: str

    async def run(self) -> None:
        """Tell each second until cancelled."""
        async with Database(self.dsn, max_connections=1) as database:
            await self.arms.tell(PostgresArms(database))


def evidence(table: CurrentTable, clock: Clock, dsn: str) -> Evidence:
    """Put it together; nothing connects yet."""
    arms = Arms(
        clock,
        f"{socket.gethostname()}:{os.getpid()}",
        secrets.token_hex(6),
        sticky=sticky_key,
        shared=lambda name: shared_by(table, name),
        is_alias=lambda name: name in table.view.routes,
    )
    return Evidence(arms, dsn)


def shared_by(table: CurrentTable, name: str) -> Shared | None:
    """Return how several versions share this alias; None for a version's own name, or one version alone."""
    view = table.view
    route = view.routes.get(name)
    if route is None or len(route.shares) == 1:
        return None
    return Shared(Alias(name), max(view.versions[share.version].max_model_len for share in route.shares))
