"""What dispatch needs from outside: a way to workers, and somebody who listens to what they say of their load."""

from collections.abc import Callable, Sequence
from typing import Protocol

from penstock.domain.fleet.worker import Load
from penstock.domain.ids import VersionId, WorkerId


def always() -> bool:
    """Whoever asks has nobody that could leave."""
    return True


class Receiver(Protocol):
    """Who takes a worker's answer as it comes."""

    def on_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Status line and headers."""
        ...

    def on_body(self, data: bytes) -> None:
        """A piece of the body."""
        ...

    def on_end(self, error: BaseException | None) -> None:
        """Complete (None) or broken off."""
        ...


class Exchange(Protocol):
    """A request under way."""

    def hand_over(self, receiver: Receiver) -> None:
        """Let another receiver take the rest."""
        ...

    def pause(self) -> None:
        """Stop reading."""
        ...

    def resume(self) -> None:
        """Read again."""
        ...

    def abort(self) -> None:
        """Close the connection; no callback follows."""
        ...


class Workers(Protocol):
    """The way to workers."""

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
        """POST, return when it is on its way.

        ``OSError`` where no connection can be had, or nobody wants it once there is one: nothing was sent.
        """
        ...


class Loads(Protocol):
    """Who keeps book of the workers' load."""

    def heard(self, worker: WorkerId, load: Load) -> None:
        """A worker said how busy it is."""
        ...

    def dispatched(self, worker: WorkerId, tokens: int) -> None:
        """This much work was sent to a worker."""
        ...

    def turned_away(self, worker: WorkerId, adapter: VersionId, for_s: float) -> None:
        """A worker said that this adapter does not answer there for so long."""
        ...
