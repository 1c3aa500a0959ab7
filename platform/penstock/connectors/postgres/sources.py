"""The gateways' sources of routing table, keys and safety packs.

A value is validated before use. The last good value stays on disk and is served while the database is unavailable.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Generic, TypeVar

import asyncpg
import msgspec

from penstock.connectors.postgres import table_slices
from penstock.connectors.postgres.listening import Channel
from penstock.connectors.postgres.queries import load
from penstock.domain.clock import Clock, SystemClock
from penstock.domain.errors import TableRefused
from penstock.domain.fleet.table import RoutingTable, validate
from penstock.domain.tenancy.tenant import KeyRing
from penstock.files.whole import appearing
from penstock.filters.book import Book
from penstock.filters.pack import Pack
from penstock.telemetry.logs import logger

_SQL = load("sources")

T = TypeVar("T")


class _Source(Generic[T]):
    """Keeps the last good copy in ``snapshot_path``; ``name`` is that of its queries and channel."""

    def __init__(
        self,
        dsn: str,
        snapshot_path: Path,
        *,
        name: str,
        decode: Callable[[bytes], Awaitable[T]],
        clock: Clock | None = None,
    ) -> None:
        self._channel = Channel(dsn, name)
        self._path = snapshot_path
        self._name = name
        self._decode = decode
        self._clock = clock or SystemClock()
        self._stamp = -1
        self._confirmed_at: float | None = None
        self._is_restored = False
        self.refused = 0
        """How many values were not valid and not used."""

    @property
    def age_s(self) -> float:
        """Seconds since the database last confirmed the value; infinite before that."""
        return float("inf") if self._confirmed_at is None else self._clock.monotonic() - self._confirmed_at

    async def run(self, on_change: Callable[[T], Awaitable[None]]) -> None:
        """First the copy on disk, once, then each new value."""
        self._stamp = -1
        if not self._is_restored:
            self._is_restored = True
            await self._restore(on_change)
        await self._channel.follow(partial(self._read, on_change))

    async def _read(self, on_change: Callable[[T], Awaitable[None]], connection: asyncpg.Connection) -> None:
        stamp = await connection.fetchval(_SQL[f"{self._name}_stamp"])
        row = None
        if stamp != self._stamp:
            row = await connection.fetchrow(_SQL[f"{self._name}_read"])
        self._confirmed_at = self._clock.monotonic()
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


class TableSource(_Source[RoutingTable]):
    def __init__(self, dsn: str, snapshot_path: Path, *, clock: Clock | None = None) -> None:
        super().__init__(dsn, snapshot_path, name="table", decode=_table, clock=clock)


class KeySource(_Source[KeyRing]):
    def __init__(self, dsn: str, snapshot_path: Path, *, clock: Clock | None = None) -> None:
        super().__init__(dsn, snapshot_path, name="keys", decode=_keys, clock=clock)


class PackSource(_Source[Book]):
    def __init__(self, dsn: str, snapshot_path: Path, *, clock: Clock | None = None) -> None:
        super().__init__(dsn, snapshot_path, name="safety", decode=_book, clock=clock)


async def _table(data: bytes) -> RoutingTable:
    table = await table_slices.decode(data)
    await asyncio.sleep(0)
    return validate(table)


async def _keys(data: bytes) -> KeyRing:
    return msgspec.json.decode(data, type=KeyRing)


class _Pack(msgspec.Struct):
    digest: str
    pack: str


class _Book(msgspec.Struct):
    packs: tuple[_Pack, ...]
    floor: tuple[str, ...]


async def _book(data: bytes) -> Book:
    return await asyncio.to_thread(_read_book, data)


def _read_book(data: bytes) -> Book:
    told = msgspec.json.decode(data, type=_Book)
    for one in told.packs:
        if sha256(one.pack.encode()).hexdigest() != one.digest:
            raise TableRefused(f"the safety pack {one.digest[:12]} is not what was pushed")
    return Book(packs=tuple(msgspec.json.decode(one.pack, type=Pack) for one in told.packs), floor=told.floor)


def _keep(path: Path, data: bytes) -> None:
    with appearing(path) as file:
        file.write(data)


def _kept(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
