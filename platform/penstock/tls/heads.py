"""A timeout on request heads, which uvicorn lacks.

Bodies and answers have deadlines of their own; handshakes end after asyncio's 60 seconds.
"""

import asyncio
from typing import Any

from penstock.lateness.awake import Timer

HEAD_S = 10.0
"""Seconds from the connection, or from a head's first byte, as at the gateway."""


def timed(protocol: type[asyncio.Protocol]) -> type[asyncio.Protocol]:
    return type("Timed", (_Timed, protocol), {})


class _Timed(asyncio.Protocol):
    cycle: Any
    transport: asyncio.Transport
    _late: Timer | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._look()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def _look(self) -> None:
        """Start the timer on an incomplete head; stop it for a running request."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._forget()
        elif self._late is None:
            self._late = Timer(HEAD_S, self._end)

    def _forget(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _end(self) -> None:
        if self.transport.get_protocol() is self:  # it may speak something else by now
            self.transport.abort()
