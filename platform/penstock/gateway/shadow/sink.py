"""The way back of a copy: nobody is there."""

from collections.abc import Callable


class Sink:
    """Fits ``domain.relay.Reply``; keeps the body where that is read here."""

    def __init__(self, *, keeps: bool = False) -> None:
        self.started, self.gone = False, False
        self._keeps = keeps
        self._pieces: list[bytes] = []

    @property
    def body(self) -> bytes:
        """What came, where it is kept."""
        return b"".join(self._pieces)

    def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """The answer begins."""
        del status, headers
        self.started = True

    def write(self, data: bytes) -> None:
        """Take a piece, and keep it where that is wanted."""
        if self._keeps:
            self._pieces.append(data)

    def finish(self) -> None:
        """Nobody waits for the end."""

    def abort(self) -> None:
        """Nobody is there to be dropped."""

    def watch(
        self, *, on_gone: Callable[[], None], on_pause: Callable[[], None], on_resume: Callable[[], None]
    ) -> None:
        """Nobody leaves, and nobody reads slowly."""
