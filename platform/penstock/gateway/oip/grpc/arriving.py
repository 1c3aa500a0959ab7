"""Waits for a call's message; a refusal can end the wait before the message is complete.

The relay ends waits that last too long: a timer for each call cost 4 % of a short one.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import grpc.aio

from penstock.domain.errors import PenstockError
from penstock.intake.relay import Client

Read = Callable[[], Awaitable[Any]]
"""The library's read: the next message, or its ``EOF``."""
Ask = Callable[[], Awaitable[None]]


async def _content() -> None: ...


async def arrived(read: Read, client: Client, within_s: float | None, ask: Ask = _content) -> bytes | None:
    """Return None if no message will come; raises ``RequestTimedOut``.

    ``ask`` may refuse a large message before it is read.
    """
    call = _Arriving(ask)
    client.waits(call, within_s)
    try:
        message = await read()
    except asyncio.CancelledError:
        call.raise_refusal()
        raise
    finally:
        client.received(call)
        call.end()
    return None if message is grpc.aio.EOF else cast("bytes", message)


class _Arriving:
    __slots__ = ("_ask", "_asking", "_cancels", "_error", "_task")

    def __init__(self, ask: Ask) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  a call is served by a task; tells mypy
        self._task, self._cancels, self._ask = task, task.cancelling(), ask
        self._error: PenstockError | None = None
        self._asking: asyncio.Task[None] | None = None

    def large(self) -> None:
        if self._asking is None:
            self._asking = asyncio.get_running_loop().create_task(self._look())

    def refuse(self, error: PenstockError) -> None:
        if self._error is None:
            self._error = error
            self._task.cancel()

    def raise_refusal(self) -> None:
        """Unless the client's leaving cancelled the task, too."""
        if self._error is not None and self._task.uncancel() <= self._cancels:
            raise self._error from None

    def end(self) -> None:
        if self._asking is not None:
            self._asking.cancel()

    async def _look(self) -> None:
        try:
            await self._ask()
        except PenstockError as error:
            self.refuse(error)
