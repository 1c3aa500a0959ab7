"""Waits for a call's message; a refusal can end the wait before the message is complete."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc.aio

from penstock.domain.errors import PenstockError, RequestTimedOut
from penstock.intake.relay import Client
from penstock.lateness import timeout

Read = Callable[[], Awaitable[bytes | None]]
"""Returns the next message; None if none will come."""


async def _content() -> None: ...


async def arrived(
    read: Read, client: Client, within_s: float | None, ask: Callable[[], Awaitable[None]] = _content
) -> bytes | None:
    """Return the next message, or raise ``RequestTimedOut``; ``ask`` may refuse a large message before it is read."""
    waiting: _Arriving | None = None
    try:
        async with timeout(within_s) as limit:
            waiting = _Arriving(limit, ask)
            with client.waits(waiting):
                return await read()
    except TimeoutError as error:
        refused = waiting.error if waiting is not None else None
        raise refused or RequestTimedOut("no message was received in time") from error
    finally:
        if waiting is not None:
            waiting.end()


def reading(context: Any) -> Read:  # noqa: ANN401  the library's own types are generic over messages
    async def read() -> Any:  # noqa: ANN401  bytes, or a message of a service that is not ours
        message = await context.read()
        return None if message is grpc.aio.EOF else message

    return read


class _Arriving:
    def __init__(self, limit: timeout, ask: Callable[[], Awaitable[None]]) -> None:
        self.error: PenstockError | None = None
        self._limit, self._ask = limit, ask
        self._asking: asyncio.Task[None] | None = None

    def large(self) -> None:
        if self._asking is None:
            self._asking = asyncio.get_running_loop().create_task(self._look())

    def refuse(self, error: PenstockError) -> None:
        self.error = error
        self._limit.end()

    def end(self) -> None:
        if self._asking is not None:
            self._asking.cancel()

    async def _look(self) -> None:
        try:
            await self._ask()
        except PenstockError as error:
            self.refuse(error)
