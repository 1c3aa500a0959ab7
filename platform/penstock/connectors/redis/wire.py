"""A small Redis client for decisions: one pipelined connection that detects a silent server early.

Calls of one event loop iteration are sent in one write; answers arrive in order. The store counts as unavailable if
calls wait and no byte arrived for ``patience_s``, or one call waited ``SLOW`` times as long, in awake seconds. Then all
calls end at once, and calls fail immediately for ``REST_S``. Speaks RESP2
(https://redis.io/docs/latest/develop/reference/protocol-spec).
"""

import asyncio
import hashlib
import ssl
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from redis.asyncio.connection import SSLConnection, parse_url

from penstock.domain.errors import StoreUnavailable
from penstock.lateness.awake import awake_time, timeout

Argument = str | bytes | int | float
Value = int | bytes | None | list["Value"]

PATIENCE_S = 0.25
"""Seconds that decisions wait for a silent store."""
TURNS = 5
"""Checks within that time."""
SLOW = 4
"""Factor on that time for one decision if the store answers others."""
CONNECT_WITHIN_S = 0.5
REST_S = 0.25
"""Seconds without an attempt after a failure."""
DEFAULT_PORT = 6379
RETRY_S = 1.0
"""``Retry-After`` for a caller that needs the store, which is tried again sooner."""

_NOT_SERVING = ("LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "NOAUTH", "WRONGPASS")
"""Answers of a server that is not the primary (any more): a new connection may find the primary."""


def server_and_database(url: str) -> tuple[str, str]:
    where = parse_url(url)
    server = where.get("path") or f"{where.get('host', 'localhost')}:{where.get('port', DEFAULT_PORT)}"
    return str(server), str(where.get("db", 0))


class ReplyError(Exception):
    """The server understood a call and refused it; the text is the server's."""


def _away(why: str) -> StoreUnavailable:
    return StoreUnavailable(f"the store that gateways share {why}", retry_after_s=RETRY_S)


def _code(error: ReplyError) -> str:
    """The first word, such as WRONGPASS: the rest may repeat the command."""
    return str(error).partition(" ")[0]


class _Incomplete(Exception):
    """The rest of the answer has not arrived."""


class Wire:
    def __init__(self, url: str, *, patience_s: float = PATIENCE_S) -> None:
        self._where = dict(parse_url(url))
        self._patience_s = patience_s
        self._link: _Link | None = None
        self._connecting: asyncio.Task[_Link] | None = None
        self._rest_until = 0.0

    async def call(self, *parts: Argument) -> Value:
        """Raises ``ReplyError``, or ``StoreUnavailable`` if the store is unavailable or late."""
        link = self._link
        if link is None or link.is_lost:
            link = await self._connected()
        try:
            return await link.ask(_encoded(parts))
        except ReplyError as error:
            if str(error).startswith(_NOT_SERVING):
                link.lose()
                self._rest()
                raise _away(f"does not serve now: {_code(error)}") from error
            raise
        except StoreUnavailable:
            self._rest()
            raise

    async def close(self) -> None:
        link, self._link = self._link, None
        if self._connecting is not None:
            self._connecting.cancel()
        if link is not None:
            link.lose()

    async def _connected(self) -> "_Link":
        loop = asyncio.get_running_loop()
        if loop.time() < self._rest_until:
            raise _away("was away a moment ago")
        if self._connecting is None:
            self._connecting = loop.create_task(self._connect())
            self._connecting.add_done_callback(self._connect_ended)
        return await asyncio.shield(self._connecting)

    def _connect_ended(self, task: "asyncio.Task[_Link]") -> None:
        self._connecting = None
        if not task.cancelled() and task.exception() is None:
            self._link = task.result()
        elif not task.cancelled():
            self._rest()

    def _rest(self) -> None:
        self._rest_until = asyncio.get_running_loop().time() + REST_S

    async def _connect(self) -> "_Link":
        try:
            async with timeout(CONNECT_WITHIN_S):
                link = await self._opened()
            for command in _greeting(self._where, _password(self._where)):
                await link.ask(_encoded(command))
        except ReplyError as error:
            raise _away(f"does not let this process in: {_code(error)}") from error
        except (OSError, TimeoutError) as error:
            raise _away("can't be reached") from error
        return link

    async def _opened(self) -> "_Link":
        loop, where = asyncio.get_running_loop(), self._where
        if "path" in where:
            _, link = await loop.create_unix_connection(self._make, str(where["path"]))
            return link
        context = None
        if where.get("connection_class") is SSLConnection:
            given = where.get("ssl_ca_certs")
            context = ssl.create_default_context(cafile=str(given) if given else None)
        host, port = str(where.get("host", "localhost")), int(cast("int", where.get("port", 6379)))
        _, link = await loop.create_connection(self._make, host, port, ssl=context)
        return link

    def _make(self) -> "_Link":
        return _Link(self._patience_s / TURNS)


class _Link(asyncio.Protocol):
    def __init__(self, turn_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._turn_s = turn_s
        self._patience_s, self._awake = TURNS * turn_s, awake_time()
        self._heard = self._awake.seconds()
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None
        self._waiting: deque[tuple[float, asyncio.Future[Value]]] = deque()
        self._out: list[bytes] = []
        self._in = b""
        self.is_lost = False

    def ask(self, command: bytes) -> "asyncio.Future[Value]":
        answer: asyncio.Future[Value] = self._loop.create_future()
        if self.is_lost:
            answer.set_exception(_away("does not answer"))
            return answer
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(command)
        now = self._awake.seconds()
        self._waiting.append((now, answer))
        if self._timer is None:
            self._heard = now
            self._timer = self._loop.call_later(self._turn_s, self._look)
        return answer

    def lose(self) -> None:
        self.is_lost = True
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()
        while self._waiting:
            _, answer = self._waiting.popleft()
            if not answer.done():
                answer.set_exception(_away("does not answer"))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.lose()

    def data_received(self, data: bytes) -> None:
        self._heard = self._awake.seconds()
        self._in = data = self._in + data if self._in else data
        at = 0
        try:
            while at < len(data):
                value, at = _parsed(data, at)
                self._answered(value)
        except _Incomplete:
            self._in = data[at:]
        except (ValueError, IndexError):  # not RESP, or an answer that nobody asked for
            self.lose()
        else:
            self._in = b""

    def _answered(self, value: "Value | ReplyError") -> None:
        _, answer = self._waiting.popleft()
        if answer.done():
            return
        if isinstance(value, ReplyError):
            answer.set_exception(value)
        else:
            answer.set_result(value)

    def _flush(self) -> None:
        out, self._out = self._out, []
        if self._transport is not None and not self.is_lost:
            self._transport.write(b"".join(out))

    def _look(self) -> None:
        """Silent server, or oldest call, for too long."""
        self._timer = None
        if not self._waiting:
            return
        now, patience_s = self._awake.seconds(), self._patience_s
        if now - self._heard > patience_s or now - self._waiting[0][0] > SLOW * patience_s:
            self.lose()
        else:
            self._timer = self._loop.call_later(self._turn_s, self._look)


class Script:
    """Called by hash; sent whole if the server lacks it."""

    def __init__(self, wire: Wire, body: str) -> None:
        self._wire = wire
        self._body = body
        self._sha = hashlib.sha1(body.encode(), usedforsecurity=False).hexdigest()

    async def __call__(self, keys: Sequence[str], args: Sequence[Argument]) -> Value:
        try:
            return await self._wire.call("EVALSHA", self._sha, len(keys), *keys, *args)
        except ReplyError as error:
            if not str(error).startswith("NOSCRIPT"):
                raise
        return await self._wire.call("EVAL", self._body, len(keys), *keys, *args)


def _password(where: dict[str, object]) -> str:
    file = where.get("password_file")
    return Path(str(file)).read_text().strip() if file else str(where.get("password") or "")


def _greeting(where: dict[str, object], password: str) -> list[tuple[Argument, ...]]:
    said: list[tuple[Argument, ...]] = []
    if password:
        user = (str(where["username"]),) if where.get("username") else ()
        said.append(("AUTH", *user, password))
    if where.get("db"):
        said.append(("SELECT", int(cast("int", where["db"]))))
    return said


def _encoded(parts: Sequence[Argument]) -> bytes:
    """Encode in one step if all arguments are ASCII, as in every decision."""
    try:
        texts = [part if type(part) is str else str(part) for part in parts if type(part) is not bytes]
        if len(texts) == len(parts):
            return "".join([f"*{len(texts)}\r\n", *[f"${len(text)}\r\n{text}\r\n" for text in texts]]).encode("ascii")
    except UnicodeEncodeError:
        pass
    raw = [part if isinstance(part, bytes) else str(part).encode() for part in parts]
    return b"".join([b"*%d\r\n" % len(raw), *[b"$%d\r\n%b\r\n" % (len(data), data) for data in raw]])


def _parsed(data: bytes, at: int) -> tuple["Value | ReplyError", int]:
    end = data.find(b"\r\n", at)
    if end < 0:
        raise _Incomplete
    kind, line, after = data[at : at + 1], data[at + 1 : end], end + 2
    if kind == b":":
        return int(line), after
    if kind == b"$":
        return _bulk(data, int(line), after)
    if kind == b"*":
        return _array(data, int(line), after)
    if kind == b"-":
        return ReplyError(line.decode(errors="replace")), after
    if kind == b"+":
        return line, after
    raise ValueError("this is not RESP")


def _bulk(data: bytes, size: int, at: int) -> tuple[bytes | None, int]:
    if size < 0:
        return None, at
    if len(data) < at + size + 2:
        raise _Incomplete
    return data[at : at + size], at + size + 2


def _array(data: bytes, size: int, at: int) -> tuple[list[Value] | None, int]:
    if size < 0:
        return None, at
    values: list[Value] = []
    for _ in range(size):
        value, at = _parsed(data, at)
        values.append(None if isinstance(value, ReplyError) else value)  # no command of ours answers so
    return values, at
