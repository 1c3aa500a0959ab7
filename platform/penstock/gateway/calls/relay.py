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
    """The rest of a stream whose worker was lost, as a request to another worker.

    ``body`` has everything but the served model and the tenant's salt. ``prompt_tokens`` are the original prompt and
    the delivered tokens, ``output_tokens`` those that may still come. ``error`` ends the answer if no worker takes it.
    """

    api: Api
    body: dict[str, object]
    prompt_tokens: int
    output_tokens: int
    error: PenstockError


class Reply(Protocol):
    """The way back to the client; the edge implements it. ``write`` never blocks: watch ``on_pause``."""

    @property
    def started(self) -> bool:
        """True once a status line has been sent."""
        ...

    @property
    def gone(self) -> bool:
        """True once the client has left."""
        ...

    def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Send status and headers (with the first write)."""
        ...

    def write(self, data: bytes) -> None:
        """Send body bytes at once; a no-op when the client is gone."""
        ...

    def finish(self) -> None:
        """End the body."""
        ...

    def abort(self) -> None:
        """Drop the connection: the reader takes nothing, so nothing can be said to it."""
        ...

    def watch(
        self, *, on_gone: Callable[[], None], on_pause: Callable[[], None], on_resume: Callable[[], None]
    ) -> None:
        """Be told when the client leaves, when its buffer is full (bounded), and when it has room again."""
        ...


class Source(Protocol):
    """Where an answer comes from, as the relay holds it: the dispatcher's present attempt."""

    def pause(self) -> None:
        """Stop reading: TCP carries the client's slowness to the engine."""
        ...

    def resume(self) -> None: ...

    def abort(self, error: PenstockError) -> None:
        """Close the worker's connection; a dispatcher still waiting for the answer raises ``error``."""
        ...


class Relay(Receiver, Protocol):
    """Takes the worker's answer as it comes and passes it to the reply."""

    def attach(self, source: Source) -> None:
        """An attempt begins: the answer will come from ``source``, from its head on."""
        ...

    @property
    def has_delivered(self) -> bool:
        """True once something of the present attempt has been passed on: from here on the dispatcher has no say."""
        ...

    @property
    def stopped(self) -> PenstockError | None:
        """Why no attempt is to be made any more: the client has left, its time is over. None while one is awaited."""
        ...

    @property
    def wants_token_ids(self) -> bool:
        """True if the engine is to send the ids of its tokens: the relay keeps book, to go on elsewhere."""
        ...

    async def rest(self) -> Rest | None:
        """Wait until the answer is over (None), or broke off so that another worker may go on with it."""
        ...

    def fail(self, error: PenstockError) -> Answer:
        """End the reply with this error: in band if it has started; otherwise leave the status to the edge."""
        ...

    async def answer(self) -> Answer:
        """Wait for the end of the answer."""
        ...
