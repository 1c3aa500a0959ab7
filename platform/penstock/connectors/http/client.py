"""Pools of keep-alive connections to workers, and one call: ``send``.

A request without a byte of answer on a reused connection is sent once more on a new one: the worker closed the idle
connection at the same time (RFC 9112, section 9.3.1). A refused connection is an error at once; a connection attempt
without an answer is repeated once.
"""

import asyncio
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from penstock.connectors.http.connection import Connection, WorkerExchange
from penstock.connectors.http.read_scheduler import ReadScheduler
from penstock.domain.serving.transport import Receiver, always
from penstock.lateness.awake import timeout


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLimits:
    """Bounds of one worker's pool.

    ``max_idle_s`` stays below the workers' keep-alive (``KEPT_ALIVE_S``; 5 s before this release), so that they rarely
    close first; after ``max_age_s`` connections are replaced, to follow a change of addresses.
    """

    max_idle: int = 64
    max_idle_s: float = 4.0
    max_age_s: float = 300.0
    connect_timeout_s: float = 1.0


@dataclass(frozen=True, slots=True)
class _Origin:
    host: str
    port: int
    secure: bool


class HttpClient:
    """``tls`` returns a new connection's context; with it every connection is encrypted."""

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        limits: PoolLimits = PoolLimits(),
        tls: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        self._clock = clock
        self._limits = limits
        self._tls = tls
        self._idle: dict[str, list[Connection]] = {}
        self._origins: dict[str, _Origin] = {}
        self._resends: set[asyncio.Task[None]] = set()
        self._reads = ReadScheduler(clock)

    async def send(
        self,
        url: str,
        path: str,
        headers: Sequence[tuple[str, str]],
        body: bytes,
        receiver: Receiver,
        *,
        is_wanted: Callable[[], bool] = always,
    ) -> WorkerExchange:
        exchange = WorkerExchange(receiver, self._head(url, path, headers, len(body)) + body)
        connection = self._take(url)
        exchange.reused = connection is not None
        if connection is None:
            connection = await self._connect(url)
            if not is_wanted():
                self._free(url, connection)
                raise ConnectionAbortedError("nobody waits for it any more")
        connection.run(exchange)
        return exchange

    def idle(self, url: str) -> int:
        return len(self._idle.get(url, ()))

    async def close(self) -> None:
        for task in list(self._resends):
            task.cancel()
        await asyncio.gather(*self._resends, return_exceptions=True)
        for pool in self._idle.values():
            for connection in pool:
                connection.close()
        self._idle.clear()

    # -- pool --------------------------------------------------------------------------

    def _take(self, url: str) -> Connection | None:
        """The most recently used, so that the others can age and close."""
        pool = self._idle.get(url)
        if not pool:
            return None
        now = self._clock()
        while pool:
            connection = pool.pop()
            rested = now - connection.idle_since
            if (
                connection.usable
                and rested < self._limits.max_idle_s
                and now - connection.opened_at < self._limits.max_age_s
            ):
                return connection
            connection.close()
        return None

    def _free(self, url: str, connection: Connection) -> None:
        pool = self._idle.setdefault(url, [])
        if connection.usable and len(pool) < self._limits.max_idle:
            connection.idle_since = self._clock()
            pool.append(connection)
            return
        if connection in pool:
            pool.remove(connection)
        if not pool:
            self._idle.pop(url, None)
        connection.close()

    async def _connect(self, url: str) -> Connection:
        origin = self._origin(url)
        if self._tls is not None and not origin.secure:
            raise ConnectionError(f"{url} is plain HTTP, and this process speaks to https:// alone")
        try:
            connection = await self._opened(url, origin)
        except TimeoutError:
            connection = await self._opened(url, origin)
        connection.opened_at = self._clock()
        return connection

    async def _opened(self, url: str, origin: _Origin) -> Connection:
        loop = asyncio.get_running_loop()
        async with timeout(self._limits.connect_timeout_s):
            _, connection = await loop.create_connection(
                lambda: Connection(
                    self._reads, lambda freed: self._free(url, freed), lambda stale: self._resend(url, stale)
                ),
                origin.host,
                origin.port,
                ssl=(self._tls() if self._tls else True) if origin.secure else None,
            )
        return connection

    def _resend(self, url: str, exchange: WorkerExchange) -> None:
        task = asyncio.get_running_loop().create_task(self._send_again(url, exchange))
        self._resends.add(task)
        task.add_done_callback(self._resends.discard)

    async def _send_again(self, url: str, exchange: WorkerExchange) -> None:
        exchange.reused = False
        try:
            connection = await self._connect(url)
        except OSError as error:
            if not exchange.aborted:
                exchange.receiver.on_end(error)
            return
        if exchange.aborted:
            connection.abort()
        else:
            connection.run(exchange)

    # -- wire --------------------------------------------------------------------------

    def _origin(self, url: str) -> _Origin:
        origin = self._origins.get(url)
        if origin is None:
            parts = urlsplit(url)
            secure = parts.scheme == "https"
            origin = _Origin(parts.hostname or "", parts.port or (443 if secure else 80), secure)
            if len(self._origins) > _MAX_ORIGINS:
                self._origins.clear()
            self._origins[url] = origin
        return origin

    def _head(self, url: str, path: str, headers: Sequence[tuple[str, str]], length: int) -> bytes:
        lines = [f"POST {path} HTTP/1.1\r\nhost: {url.partition('://')[2]}\r\ncontent-length: {length}\r\n"]
        lines += [f"{name}: {value}\r\n" for name, value in headers]
        lines.append("\r\n")
        text = "".join(lines)
        if text.count("\n") != len(headers) + 4:
            raise ValueError("a header holds a line break")
        return text.encode("latin-1", "replace")


_MAX_ORIGINS = 4096
"""Bound on parsed worker addresses, since workers come and go."""
