"""Types of ASGI, and of an answer before it is written."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]
Refusal = tuple[int, Headers, bytes]
"""Status, headers, body."""
App = Callable[[Scope, Receive, Send], Awaitable[None]]
