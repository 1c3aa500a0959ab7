"""Orders to rest, as a worker's agent gives them: no new work, and on a GPU weights and KV cache off the device.

Who was let in goes on: an order to sleep never ends a stream, and whoever waits at the door still gets its turn. The
engine's own endpoints for sleep are called inside its process; through the gate nobody reaches them.

It must not know when a worker is to sleep.
"""

from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

REST, SLEEP, WAKE = "/penstock/rest", "/penstock/sleep", "/penstock/wake"
_OF_ENGINE = {SLEEP: ("/sleep", b"level=1"), WAKE: ("/wake_up", b"")}
"""vLLM's own: level 1 keeps the weights in the host's memory, so a wake reads no file."""
_OK = 200

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Order = Callable[[Scope, Receive], Awaitable[bytes | None]]
Answer = Callable[[Send, int], Awaitable[None]]


class _Rest(msgspec.Struct):
    rest: bool


@dataclass(slots=True)
class Resting:
    """``order`` reads an order of the platform itself, None where it is not one; ``answer`` tells the gate's state."""

    engine: App
    order: Order
    answer: Answer
    is_on: bool = field(default=False, init=False)
    number: int = field(default=0, init=False)
    """Of the requests that were let in and have not ended, whether they wait, run, or have yet to send their body."""

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Count a request."""
        self.number += 1
        try:
            yield
        finally:
            self.number -= 1

    async def rest(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take no new work any more, or again."""
        body = await self.order(scope, receive)
        if body is None:
            await self.answer(send, 401)
            return
        self.is_on = msgspec.json.decode(body, type=_Rest).rest
        await self.answer(send, _OK)

    async def pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Have the engine sleep or wake; nothing but a closed gate may stand before one that sleeps."""
        if await self.order(scope, receive) is None:
            await self.answer(send, 401)
            return
        if not self.is_on:
            await self.answer(send, 409)
            return
        path, query = _OF_ENGINE[scope["path"]]
        own = {**scope, "path": path, "raw_path": path.encode(), "query_string": query}
        await self.answer(send, await _status(self.engine, own))


async def _status(app: App, scope: Scope) -> int:
    """Return the status that the engine answers an empty body with."""
    status = 500

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]

    await app(scope, receive, send)
    return status
