"""Versions for which gateways hold requests, sent to controllers by notifications; nothing is stored.

A lost notification is repeated within a second. While the database is unavailable no report arrives and no version
wakes.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import asyncpg
import msgspec

from penstock.connectors.postgres.database import CONNECT_WITHIN_S, QUERY_WITHIN_S, Database, translated, way
from penstock.connectors.postgres.queries import load
from penstock.domain.errors import StoreUnavailable
from penstock.domain.fleet.versions import Wanted
from penstock.domain.ids import VersionId
from penstock.telemetry.logs import logger

CHANNEL = "penstock_wanted"
_SQL = load("wanted")
_LOOK_S = 2.0
"""Seconds between checks of a silent connection."""
_RETRY_S = 0.5


class _Told(msgspec.Struct, frozen=True):
    version: VersionId
    requests: int
    tokens: int


_TOLD = msgspec.json.Decoder(_Told)


class PostgresWantedTeller:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def tell(self, version: VersionId, requests: int, tokens: int) -> None:
        told = msgspec.json.encode(_Told(version=version, requests=requests, tokens=tokens)).decode()
        await self._database.rows(_SQL["tell"], CHANNEL, told)


class PostgresWanted:
    def __init__(self, dsn: str) -> None:
        self._way = way(dsn)
        self._broken = asyncio.Event()
        self.refused = 0
        """How many notifications were none of ours."""

    async def run(self, on_wanted: Callable[[Wanted], None]) -> None:
        is_away = False
        while True:
            try:
                with translated():
                    await self._listen(on_wanted)
            except StoreUnavailable as error:
                if not is_away:
                    logger().warning("source_is_away", table="wanted", reason=str(error.__cause__ or error))
                is_away = True
            else:
                is_away = False
            await asyncio.sleep(_RETRY_S)

    async def _listen(self, on_wanted: Callable[[Wanted], None]) -> None:
        connection = await asyncpg.connect(
            self._way.dsn, password=self._way.password, timeout=CONNECT_WITHIN_S, command_timeout=QUERY_WITHIN_S
        )
        try:
            self._broken.clear()
            connection.add_termination_listener(lambda _: self._broken.set())
            await connection.add_listener(CHANNEL, lambda *told: self._take(told[-1], on_wanted))
            while not self._broken.is_set():
                await connection.execute(_SQL["still_here"])
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_S):
                        await self._broken.wait()
        finally:
            connection.terminate()

    def _take(self, payload: object, on_wanted: Callable[[Wanted], None]) -> None:
        try:
            told = _TOLD.decode(str(payload))
        except msgspec.MsgspecError:
            self.refused += 1
            return
        on_wanted(Wanted(version=told.version, requests=told.requests, tokens=told.tokens))
