"""A loop over a channel's notifications that survives outages of the database.

``LISTEN`` on a separate connection delivers news at once; polling covers lost notifications and finds a silent
connection.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import asyncpg

from penstock.connectors.postgres.database import CONNECT_WITHIN_S, QUERY_WITHIN_S, translated, way
from penstock.domain.errors import StoreUnavailable
from penstock.telemetry.logs import logger

_POLL_S = 2.0
_FIRST_RETRY_S = 0.1
_MAX_RETRY_S = 2.0


class Channel:
    def __init__(self, dsn: str, name: str) -> None:
        self.name = name
        self._way = way(dsn)
        self._is_away = False
        self._retry_s = _FIRST_RETRY_S

    async def follow(
        self, look: Callable[[asyncpg.Connection], Awaitable[object]], told: Callable[[str], None] | None = None
    ) -> None:
        """Call ``look`` after each connection and every two seconds; at each notification ``told`` with its payload, or
        without it ``look``. Outages are waited out; any other error ends it.
        """
        while True:
            try:
                with translated():
                    await self._listen(look, told)
            except (StoreUnavailable, asyncpg.PostgresError) as error:  # the latter: not migrated yet, for example
                self._note_away(error)
            await asyncio.sleep(self._retry_s)
            self._retry_s = min(_MAX_RETRY_S, self._retry_s * 2)

    async def _listen(
        self, look: Callable[[asyncpg.Connection], Awaitable[object]], told: Callable[[str], None] | None
    ) -> None:
        connection = await asyncpg.connect(
            **self._way.named(), timeout=CONNECT_WITHIN_S, command_timeout=QUERY_WITHIN_S
        )
        news = asyncio.Event()
        try:
            connection.add_termination_listener(lambda _: news.set())
            await connection.add_listener(
                f"penstock_{self.name}", lambda *said: told(str(said[-1])) if told else news.set()
            )
            while True:
                news.clear()
                await look(connection)
                self._note_back()
                with suppress(TimeoutError):
                    async with asyncio.timeout(_POLL_S):
                        await news.wait()
        finally:
            connection.terminate()

    def _note_away(self, error: Exception) -> None:
        if not self._is_away:
            self._is_away = True
            logger().warning("source_is_away", table=self.name, reason=str(error.__cause__ or error))

    def _note_back(self) -> None:
        self._retry_s = _FIRST_RETRY_S
        if self._is_away:
            self._is_away = False
            logger().info("source_is_back", table=self.name)
