"""The transport port towards workers: a request is sent, its answer comes to a receiver as callbacks."""

import errno
from collections.abc import Callable, Sequence
from typing import Protocol

KEPT_ALIVE_S = 75
"""Seconds for which a worker keeps an unused connection open."""

_OWN = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL})
"""Errors for lack of file descriptors, buffers, memory or ports on this machine."""


def always() -> bool:
    return True


def is_own_shortage(error: BaseException | None) -> bool:
    """True if this machine lacked a resource for a connection, which says nothing about the worker."""
    return isinstance(error, OSError) and error.errno in _OWN


class Receiver(Protocol):
    """Callbacks run in the event loop without a task switch and must not block."""

    def on_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Receive status and headers; names keep the worker's spelling."""
        ...

    def on_body(self, data: bytes) -> None: ...

    def on_end(self, error: BaseException | None) -> None:
        """``error`` if the answer broke off; called once, and not after ``abort``."""
        ...


class Exchange(Protocol):
    def hand_over(self, receiver: Receiver) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def abort(self) -> None: ...


class Workers(Protocol):
    async def send(
        self,
        url: str,
        path: str,
        headers: Sequence[tuple[str, str]],
        body: bytes,
        receiver: Receiver,
        *,
        is_wanted: Callable[[], bool] = always,
    ) -> Exchange:
        """Return when the request is on its way.

        Raises ``OSError`` without a connection, or if the request is no longer wanted by then: nothing was sent.
        ``TimeoutError`` means that two attempts had no answer, in seconds in which this process was awake.
        """
        ...
