"""The way of an answer: worker → ``Source`` → ``Relay`` → ``Reply`` → client. Ports that several stages share."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from penstock.domain.errors import PenstockError
from penstock.domain.serving.request import Api
from penstock.domain.serving.transport import Receiver
from penstock.gateway.calls.call import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """The rest of a broken stream, as a request to another worker.

    ``body`` lacks the served model and the tenant's salt. ``prompt_tokens`` include the delivered ones,
    ``output_tokens`` are those left. ``error`` ends the answer if no worker takes it.
    """

    api: Api
    body: dict[str, object]
    prompt_tokens: int
    output_tokens: int
    error: PenstockError


class Reply(Protocol):
    """The way back to the client. ``write`` never blocks: watch ``on_pause``."""

    @property
    def started(self) -> bool: ...

    @property
    def gone(self) -> bool: ...

    def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Send status and headers (with the first write)."""
        ...

    def write(self, data: bytes) -> None:
        """Send body bytes at once; a no-op without a client."""
        ...

    def finish(self) -> None: ...

    def abort(self) -> None:
        """Drop the connection: its reader takes nothing more."""
        ...

    def watch(
        self, *, on_gone: Callable[[], None], on_pause: Callable[[], None], on_resume: Callable[[], None]
    ) -> None:
        """Call back when the client leaves, when its buffer is full (bounded), and when it has room."""
        ...


class Source(Protocol):
    """The worker's answer as the relay holds it: the dispatcher's present attempt."""

    def pause(self) -> None:
        """Stop reading: TCP carries the client's slowness to the engine."""
        ...

    def resume(self) -> None: ...

    def abort(self, error: PenstockError) -> None:
        """Close the worker's connection; a waiting dispatcher raises ``error``."""
        ...


class Relay(Receiver, Protocol):
    """Passes the worker's answer on to the reply."""

    def attach(self, source: Source) -> None: ...

    @property
    def has_delivered(self) -> bool:
        """True once this attempt has delivered something: the dispatcher can't retry any more."""
        ...

    @property
    def stopped(self) -> PenstockError | None:
        """The reason against further attempts (client left, time over); None if there is none."""
        ...

    @property
    def wants_token_ids(self) -> bool:
        """True if the engine is to send token ids, to go on at another worker."""
        ...

    async def rest(self) -> Rest | None:
        """Wait for the answer's end (None), or for a break that another worker may continue."""
        ...

    def fail(self, error: PenstockError) -> Answer:
        """End the reply with this error: in band after the first byte, else with a status."""
        ...

    async def answer(self) -> Answer: ...
