"""ASGI without a framework: types, header, body, plain answer, and calls inside this process."""

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from http import HTTPStatus
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = tuple[tuple[bytes, bytes], ...]
OK = HTTPStatus.OK


class BodyTooLarge(Exception):
    """Larger than any body that a gateway sends."""


def header(scope: Scope, name: bytes) -> bytes:
    return next((value for key, value in scope["headers"] if key == name), b"")


async def body_of(receive: Receive, most_bytes: int) -> bytes:
    message = await receive()
    body: bytes = message.get("body", b"")
    while message.get("more_body", False):
        message = await receive()
        body += message.get("body", b"")
        if len(body) > most_bytes:
            raise BodyTooLarge
    return bytes(body)


def replay(body: bytes, receive: Receive) -> Receive:
    is_left = True

    async def replayed() -> Message:
        nonlocal is_left
        if not is_left:
            return await receive()
        is_left = False
        return {"type": "http.request", "body": body, "more_body": False}

    return replayed


async def answer(
    send: Send, status: int, body: bytes, *, headers: Sequence[tuple[bytes, bytes]] = (), kind: str = "application/json"
) -> None:
    head = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode()), *headers]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})


async def call(app: ASGIApp, scope: Scope, body: bytes = b"") -> tuple[int, str]:
    """Return status (500 without one) and text."""
    status, text, is_sent = 500, b"", False

    async def receive() -> Message:
        nonlocal is_sent
        if is_sent:
            return {"type": "http.disconnect"}
        is_sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status, text
        status = message.get("status", status)
        text += message.get("body", b"")

    await app(scope, receive, send)
    return status, text.decode(errors="replace")
