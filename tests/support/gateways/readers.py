"""Replies whose clients stop reading, or leave."""

import asyncio
from collections.abc import Callable


class Full:
    """A reply whose client has stopped reading."""

    def __init__(self) -> None:
        self.started = self.gone = False
        self.sent = b""

    def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.started = True

    def write(self, data: bytes) -> None:
        self.sent += data

    def finish(self) -> None:
        """Nothing to end."""

    def abort(self) -> None:
        self.gone = True

    def watch(
        self, *, on_gone: Callable[[], None], on_pause: Callable[[], None], on_resume: Callable[[], None]
    ) -> None:
        on_pause()


class Leaving(Full):
    """A reply whose client may leave."""

    def __init__(self) -> None:
        super().__init__()
        self.heard = asyncio.Event()

    def write(self, data: bytes) -> None:
        super().write(data)
        self.heard.set()

    def leave(self) -> None:
        self.gone = True
        self.on_gone()

    def watch(
        self, *, on_gone: Callable[[], None], on_pause: Callable[[], None], on_resume: Callable[[], None]
    ) -> None:
        self.on_gone = on_gone
