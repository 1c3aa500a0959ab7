"""The gateways' sources of routing table and keys, each a loop that survives outages of the database.

``LISTEN`` on a separate connection delivers changes at once; polling covers lost notifications. A value is validated
before use. The last good value stays on disk and is served while the database is unavailable.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Generic, TypeVar

import asyncpg
import msgspec

from penstock.connectors.postgres import table_slices
from penstock.connectors.postgres.database import CONNECT_WITHIN_S, QUERY_WITHIN_S, translated, way
from penstock.connectors.postgres.queries import load
from penstock.domain.clock import Clock, SystemClock
from penstock.domain.errors import StoreUnavailable, TableRefused
from penstock.domain.fleet.table import RoutingTable, validate
from penstock.domain.tenancy.tenant import KeyRing
from penstock.telemetry.logs import logger

_SQL = load("sources")
_POLL_S = 2.0
_FIRST_RETRY_S = 0.1
_MAX_RETRY_S = 2.0

T = TypeVar("T")


class _Source(Generic[T]):
    """Follows one value of the database, and keeps its last good copy in ``snapshot_path``. ``name`` selects its
    queries and channel.
    """

    def __init__(
        self,
        dsn: str,
        snapshot_path: Path,
        *,
        name: str,
        decode: Callable[[bytes], Awaitable[T]],
        clock: Clock | None = None,
    ) -> None:
        self._way = way(dsn)
        self._path = snapshot_path
        self._name = name
        self._decode = decode
        self._clock = clock or SystemClock()
        self._stamp = -1
        self._confirmed_at: float | None = None
        self._is_away = self._is_restored = False
        self._changed = asyncio.Event()
        self.refused = 0
        """How many values were not valid and not used."""

    @property
    def age_s(self) -> float:
        """Seconds since the database last confirmed the value; infinite before that."""
        return float("inf") if self._confirmed_at is None else self._clock.monotonic() - self._confirmed_at

    async def run(self, on_change: Callable[[T], Awaitable[None]]) -> None:
        """Deliver the copy on disk, then each new value. While the database is unavailable it retries; any other error
        ends it.

        A second run does not deliver the copy again.
        """
        self._stamp = -1
        if not self._is_restored:
            self._is_restored = True
            await self._restore(on_change)
        retry_s = _FIRST_RETRY_S
        while True:
            try:
                with translated():
                    await self._follow(on_change)
            except (StoreUnavailable, asyncpg.PostgresError) as error:  # the latter: not migrated yet, for example
                self._note_away(error)
            if self.age_s < _POLL_S * 2:
                retry_s = _FIRST_RETRY_S
            await asyncio.sleep(retry_s)
            retry_s = min(_MAX_RETRY_S, retry_s * 2)

    async def _follow(self, on_change: Callable[[T], Awaitable[None]]) -> None:
        connection = await asyncpg.connect(
            self._way.dsn, password=self._way.password, timeout=CONNECT_WITHIN_S, command_timeout=QUERY_WITHIN_S
        )
        try:
            connection.add_termination_listener(lambda _: self._changed.set())
            await connection.add_listener(f"penstock_{self._name}", lambda *_: self._changed.set())
            while True:
                self._changed.clear()
                await self._read(connection, on_change)
                with suppress(TimeoutError):
                    async with asyncio.timeout(_POLL_S):
                        await self._changed.wait()
        finally:
            connection.terminate()

    async def _read(self, connection: asyncpg.Connection, on_change: Callable[[T], Awaitable[None]]) -> None:
        stamp = await connection.fetchval(_SQL[f"{self._name}_stamp"])
        row = None
        if stamp != self._stamp:
            row = await connection.fetchrow(_SQL[f"{self._name}_read"])
        self._confirmed_at = self._clock.monotonic()
        if self._is_away:
            self._is_away = False
            logger().info("source_is_back", table=self._name)
        if row is not None:
            self._stamp = row["stamp"]
            await self._take(row["body"].encode(), on_change)

    async def _take(self, data: bytes, on_change: Callable[[T], Awaitable[None]]) -> None:
        if await self._use(data, on_change):
            try:
                await asyncio.to_thread(_keep, self._path, data)
            except OSError as error:
                logger().warning("source_copy_not_written", table=self._name, reason=error.strerror)

    async def _restore(self, on_change: Callable[[T], Awaitable[None]]) -> None:
        try:
            data = _kept(self._path)
        except OSError as error:
            logger().warning("source_copy_not_read", table=self._name, reason=error.strerror)
            return
        if data is not None:
            await self._use(data, on_change)

    async def _use(self, data: bytes, on_change: Callable[[T], Awaitable[None]]) -> bool:
        try:
            value = await self._decode(data)
        except (msgspec.MsgspecError, TableRefused, UnicodeDecodeError) as error:
            self.refused += 1
            logger().error("source_value_refused", table=self._name, reason=str(error))
            return False
        await on_change(value)
        return True

    def _note_away(self, error: Exception) -> None:
        if not self._is_away:
            self._is_away = True
            logger().warning("source_is_away", table=self._name, reason=str(error.__cause__ or error))


class TableSource(_Source[RoutingTable]):
    def __init__(self, dsn: str, snapshot_path: Path, *, clock: Clock | None = None) -> None:
        super().__init__(dsn, snapshot_path, name="table", decode=_table, clock=clock)


class KeySource(_Source[KeyRing]):
    def __init__(self, dsn: str, snapshot_path: Path, *, clock: Clock | None = None) -> None:
        super().__init__(dsn, snapshot_path, name="keys", decode=_keys, clock=clock)


async def _table(data: bytes) -> RoutingTable:
    table = await table_slices.decode(data)
    await asyncio.sleep(0)
    return validate(table)


async def _keys(data: bytes) -> KeyRing:
    return msgspec.json.decode(data, type=KeyRing)


def _keep(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _kept(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
