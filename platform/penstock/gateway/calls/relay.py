"""The path of an answer: worker → ``Source`` → ``Relay`` → ``Reply`` → client. Ports shared by several stages."""

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

    ``body`` does not yet contain the served model and the tenant's salt. ``prompt_tokens`` include the delivered ones,
    ``output_tokens`` are the remaining ones. ``error`` ends the answer if no worker accepts the rest.
    """

    api: Api
    body: dict[str, object]
    prompt_tokens: int
    output_tokens: int
    error: PenstockError


class Reply(Protocol):
    """The channel to the client. ``write`` never blocks: register ``on_pause``."""

    @property
    def started(self) -> bool: ...

    @property
    def gone(self) -> bool: ...

    def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None: ...

    def write(self, data: bytes) -> None:
        """Send body bytes at once; a no-op after a disconnect."""
        ...

    def finish(self) -> None: ...

    def abort(self) -> None:
        """Drop the connection: its client no longer reads."""
        ...

    def watch(
        self, *, on_gone: Callable[[], None], on_pause: Callable[[], None], on_resume: Callable[[], None]
    ) -> None:
        """``on_pause``: the client's buffer is full (bounded)."""
        ...


class PassedReply:
    """A ``Reply`` over another; what passes is changed or looked at by its subclasses."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply

    @property
    def started(self) -> bool:
        return self._reply.started

    @property
    def gone(self) -> bool:
        return self._reply.gone

    def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self._reply.start(status, headers)

    def write(self, data: bytes) -> None:
        self._reply.write(data)

    def finish(self) -> None:
        self._reply.finish()

    def abort(self) -> None:
        self._reply.abort()

    def watch(
        self, *, on_gone: Callable[[], None], on_pause: Callable[[], None], on_resume: Callable[[], None]
    ) -> None:
        self._reply.watch(on_gone=on_gone, on_pause=on_pause, on_resume=on_resume)


class Source(Protocol):
    def pause(self) -> None:
        """Stop reading: TCP propagates the client's slowness to the engine."""
        ...

    def resume(self) -> None: ...

    def abort(self, error: PenstockError) -> None: ...


class Relay(Receiver, Protocol):
    def attach(self, source: Source) -> None: ...

    @property
    def has_delivered(self) -> bool:
        """This attempt has delivered output: the dispatcher can't retry any more."""
        ...

    @property
    def stopped(self) -> PenstockError | None:
        """Return the reason against further attempts: client left, deadline passed."""
        ...

    @property
    def wants_token_ids(self) -> bool: ...

    async def rest(self) -> Rest | None:
        """Wait for the answer's end (None), or a break that another worker may continue."""
        ...

    def fail(self, error: PenstockError) -> Answer: ...

    async def answer(self) -> Answer: ...
