"""HTTP as a load generator wants it: kept connections without a limit, no hidden retry, no hidden wait.

The standard library's client, plainly blocking: under gevent every caller waits for itself alone.
"""

import select
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPSConnection
from urllib.parse import urlsplit

SLOW_BUFFER_BYTES = 4096
"""What the kernel may hold for a slow reader; its default would hide that it is slow."""


class Connections:
    """Kept connections to one target; a caller without an idle one opens another."""

    def __init__(self, target: str) -> None:
        """Take the target's address, with or without ``/v1``."""
        parts = urlsplit(target)
        self._host, self._port, self._secure = parts.hostname or "", parts.port, parts.scheme == "https"
        self._idle: list[HTTPConnection] = []
        self._tls = ssl.create_default_context() if self._secure else None
        self.path = parts.path.rstrip("/").removesuffix("/v1") + "/v1"

    @contextmanager
    def lent(self, *, slow: bool, within_s: float) -> Iterator[HTTPConnection]:
        """Lend a connection; it is kept afterwards if its answer was read to the end."""
        connection = self._new(within_s, SLOW_BUFFER_BYTES) if slow else (self._kept() or self._new(within_s))
        is_read = False
        try:
            yield connection
            is_read = not slow and connection.sock is not None and _is_quiet(connection.sock)
        finally:
            if is_read:
                self._idle.append(connection)
            else:
                connection.close()

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _kept(self) -> HTTPConnection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.sock is not None and _is_quiet(connection.sock):
                return connection
            connection.close()
        return None

    def _new(self, within_s: float, buffer_bytes: int = 0) -> HTTPConnection:
        connection = (
            HTTPSConnection(self._host, self._port, timeout=within_s, context=self._tls)
            if self._secure
            else HTTPConnection(self._host, self._port, timeout=within_s)
        )
        connection.connect()
        if buffer_bytes:
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
        return connection


def _is_quiet(sock: socket.socket) -> bool:
    """Say whether nothing has come on an idle connection; what comes there is its end."""
    return not select.select([sock], [], [], 0)[0]
