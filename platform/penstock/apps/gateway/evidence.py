"""Evidence of versions that share an alias: counted as requests end, told to the controllers each second."""

import asyncio
import os
import secrets
import socket
from dataclasses import dataclass

from penstock.connectors.postgres.arms import PostgresArms
from penstock.connectors.postgres.database import Database
from penstock.domain.clock import Clock
from penstock.domain.errors import PenstockError
from penstock.domain.ids import Alias
from penstock.gateway.evidence import Arms, Shared
from penstock.gateway.routing import CurrentTable, sticky_key
from penstock.telemetry import logs

TELL_EVERY_S = 1.0


@dataclass(slots=True)
class Evidence:
    """What counts, and tells; a second that can't be told is left out, since missing evidence decides nothing."""

    arms: Arms
    dsn: str
    _is_away: bool = False

    async def run(self) -> None:
        """Tell each second until cancelled."""
        async with Database(self.dsn, max_connections=1) as database:
            store = PostgresArms(database)
            while True:
                await asyncio.sleep(TELL_EVERY_S)
                await self._tell(store)

    async def _tell(self, store: PostgresArms) -> None:
        second = self.arms.take()
        if second is None:
            return
        try:
            await store.tell(second)
        except PenstockError as error:
            if not self._is_away:
                logs.logger().warning("evidence_not_told", code=error.code, reason=error.message)
            self._is_away = True
        else:
            self._is_away = False


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
