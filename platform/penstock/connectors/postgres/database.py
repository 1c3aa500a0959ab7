"""A reconnecting pool of Postgres connections, and the only translation of its errors.

An unreachable database raises ``StoreUnavailable`` within seconds and works again once it is back.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from penstock.connectors.postgres.queries import load
from penstock.domain.errors import Conflict, InvalidField, StoreUnavailable
from penstock.lateness.awake import timeout

CONNECT_WITHIN_S = 2.0
ACT_WITHIN_S = 5.0
"""Seconds that an administrative act waits for earlier ones, the same as for a query."""
QUERY_WITHIN_S = 5.0
PASSWORD_FILE = "password_file"
"""The platform's own address parameter: drivers only know a file of several passwords, closed to groups."""

_FIXED = {"search_path": "public, pg_temp", "row_security": "off"}
"""Of each connection: no object of another schema stands for ours, and a policy that hides rows is an error."""

_AWAY = (
    OSError,
    TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
)

_UNUSABLE: dict[type[Exception], str] = {
    asyncpg.DiskFullError: "the database's disk is full: it can't write",
    asyncpg.InvalidAuthorizationSpecificationError: "the database refuses the role or its password",
    asyncpg.InvalidCatalogNameError: "there is no database of that name on the server",
    asyncpg.InsufficientPrivilegeError: "the database's role lacks a right, which `penstock init` grants",
}
"""Errors of a server that answers, and what it lacks."""
_UNAVAILABLE: tuple[type[Exception], ...] = (*_UNUSABLE, *_AWAY)

_SQL = load("acts")
_Store = TypeVar("_Store")
_NOUNS = {"org": "organisation", "api_key": "API key"}
"""Tables with rows that have another name in error messages."""


@dataclass(frozen=True, slots=True)
class Way:
    """A database's address, and a reader of its password if that is in a file."""

    dsn: str
    password: Callable[[], str] | None

    def named(self, name: str = "penstock") -> dict[str, Any]:
        """Return what each connection is made with."""
        settings = {"application_name": name, **_FIXED}
        return {"dsn": self.dsn, "password": self.password, "server_settings": settings}


def way(dsn: str) -> Way:
    """Return the database's address; ``password_file`` is read at each connection."""
    parts = urlsplit(dsn)
    parameters = parse_qsl(parts.query, keep_blank_values=True)
    files = [value for name, value in parameters if name == PASSWORD_FILE]
    if not files:
        return Way(dsn, None)
    rest = urlencode([pair for pair in parameters if pair[0] != PASSWORD_FILE])
    return Way(urlunsplit(parts._replace(query=rest)), lambda: Path(files[-1]).read_text().strip())


@contextmanager
def translated() -> Iterator[None]:
    try:
        yield
    except asyncpg.DataError as error:  # a NUL in a text, a number that is too large
        raise InvalidField("the database can't hold this value") from error
    except _UNAVAILABLE as error:
        said = next(
            (says for kind, says in _UNUSABLE.items() if isinstance(error, kind)), "the database can't be reached"
        )
        raise StoreUnavailable(said) from error
    except asyncpg.UniqueViolationError as error:
        table = error.table_name or "row"
        raise Conflict(f"this {_NOUNS.get(table, table.replace('_', ' '))} exists already") from error
    except asyncpg.IntegrityConstraintViolationError as error:
        raise Conflict(f"the database refused this: {error.constraint_name or 'a constraint'}") from error


async def _leave(connection: asyncpg.Connection) -> None:
    """Reset nothing: the driver would make another round trip behind each statement. What outlives a transaction, such
    as locks of leaders and ``LISTEN``, has a connection of its own.
    """


class Session:
    def __init__(self, connection: PoolConnectionProxy) -> None:
        self._connection = connection

    async def rows(self, sql: str, *arguments: object) -> list[asyncpg.Record]:
        rows: list[asyncpg.Record] = await self._connection.fetch(sql, *arguments)
        return rows

    async def row(self, sql: str, *arguments: object) -> asyncpg.Record | None:
        row: asyncpg.Record | None = await self._connection.fetchrow(sql, *arguments)
        return row

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        async with self._connection.transaction():
            yield

    async def run(self, sql: str, *arguments: object) -> None:
        await self._connection.execute(sql, *arguments)

    async def copy(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        await self._connection.copy_records_to_table(table, columns=columns, records=rows)


_ACTING: ContextVar[tuple["Database", Session] | None] = ContextVar("act", default=None)


class Database:
    """Opens even if the database is unavailable; on a slow machine timeouts are multiplied by ``slower``."""

    def __init__(self, dsn: str, *, max_connections: int = 8, slower: float = 1.0) -> None:
        self._way = way(dsn)
        self._max = max_connections
        self._connect_within_s = CONNECT_WITHIN_S * slower
        self._query_within_s = QUERY_WITHIN_S * slower
        self._act_within_s = ACT_WITHIN_S * slower
        self._one_act = asyncio.Lock()
        self._opened: asyncpg.Pool | None = None

    async def __aenter__(self) -> Self:
        self._opened = await asyncpg.create_pool(
            **self._way.named(),
            min_size=0,
            max_size=self._max,
            timeout=self._connect_within_s,
            command_timeout=self._query_within_s,
            max_inactive_connection_lifetime=60.0,
            reset=_leave,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pool, self._opened = self._pool, None
        try:
            async with timeout(self._connect_within_s):
                await pool.close()
        except TimeoutError:
            pool.terminate()

    @property
    def _pool(self) -> asyncpg.Pool:
        if self._opened is None:
            raise StoreUnavailable("the connection to the database is not open")
        return self._opened

    @property
    def acting(self) -> Session | None:
        acting = _ACTING.get()
        return acting[1] if acting is not None and acting[0] is self else None

    @asynccontextmanager
    async def act(self) -> AsyncIterator[None]:
        """Every read and write of this task in one transaction, and no other act of any controller meanwhile. Acts of
        one process wait for each other first, so that they don't hold the pool's connections.
        """
        try:
            async with timeout(self._act_within_s):
                await self._one_act.acquire()
        except TimeoutError as error:
            raise StoreUnavailable("other administrative changes are taking too long") from error
        try:
            async with self.transaction() as session:
                await session.run(_SQL["alone"])
                token = _ACTING.set((self, session))
                try:
                    yield
                finally:
                    _ACTING.reset(token)
        finally:
            self._one_act.release()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Session]:
        """Begin a transaction; inside an act, a savepoint."""
        with translated():
            if (acting := self.acting) is not None:
                async with acting.savepoint():
                    yield acting
                return
            async with (
                self._pool.acquire(timeout=self._connect_within_s) as connection,
                connection.transaction(),
            ):
                yield Session(connection)

    async def rows(self, sql: str, *arguments: object) -> list[asyncpg.Record]:
        with translated():
            if (acting := self.acting) is not None:
                return await acting.rows(sql, *arguments)
            rows: list[asyncpg.Record] = await self._pool.fetch(sql, *arguments)
            return rows

    async def row(self, sql: str, *arguments: object) -> asyncpg.Record | None:
        with translated():
            if (acting := self.acting) is not None:
                return await acting.row(sql, *arguments)
            row: asyncpg.Record | None = await self._pool.fetchrow(sql, *arguments)
            return row


@asynccontextmanager
async def lone(dsn: str, store: Callable[[Database], _Store]) -> AsyncIterator[_Store]:
    """Yield a store with a connection of its own."""
    async with Database(dsn, max_connections=1) as database:
        yield store(database)
