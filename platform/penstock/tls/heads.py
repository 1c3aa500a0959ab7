"""A bound on how long the head of a request may take, which uvicorn has none for; it knows no roles.

A body and an answer take as long as they take: what runs has its own deadlines. Handshakes before it end after the
loop's own 60 seconds: uvicorn makes the listener, in the engine by vLLM's hand, and gives no way to say less.
"""

import asyncio
from typing import Any

HEAD_S = 10.0
"""From the connection, or from a head's own first byte: as at the gateway's edge."""


def timed(protocol: type[asyncio.Protocol]) -> type[asyncio.Protocol]:
    """Return uvicorn's protocol, whichever it is, with this bound."""
    return type("Timed", (_Timed, protocol), {})


class _Timed(asyncio.Protocol):
    """Goes before a protocol of uvicorn's, which has the rest."""

    cycle: Any
    transport: asyncio.Transport
    _late: asyncio.TimerHandle | None = None

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
        """Give a head that is not whole its time; a request that runs has none here."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._forget()
        elif self._late is None:
            self._late = asyncio.get_running_loop().call_later(HEAD_S, self._end)

    def _forget(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _end(self) -> None:
        if self.transport.get_protocol() is self:  # it may speak something else by now
            self.transport.abort()
