"""Requests that come from inside the platform: how they are asked, and their answers.

The pipeline has the one entrance; shadow copies and comparisons use it, and runners of jobs will. It must not know its
users, nor what becomes of the answer.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from penstock.domain.errors import PenstockError
from penstock.domain.serving.request import InferenceRequest
from penstock.domain.serving.shadow import Copy
from penstock.domain.tenancy.tenant import Principal
from penstock.gateway.calls.call import Answer, Call
from penstock.gateway.calls.relay import Reply


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The end of such a request: the call as far as it came, its answer, and the error if it was refused."""

    call: Call
    answer: Answer
    body: bytes = b""
    """The reply's bytes; empty if the request had a reply of its own."""
    error: PenstockError | None = None


class Ask(Protocol):
    """Answers a request from inside the platform (``Pipeline.ask``)."""

    async def __call__(
        self,
        request: InferenceRequest,
        principal: Principal,
        *,
        copy: Copy | None = None,
        reply: Reply | None = None,
    ) -> Asked:
        """Return how it ended; a refusal is returned, not raised."""
        ...


class BodyReply:
    """A ``Reply`` without a client: it never pauses and never leaves. It keeps the body, or drops it."""

    def __init__(self, *, keeps: bool = True) -> None:
        self.started, self.gone = False, False
        self._keeps = keeps
        self._pieces: list[bytes] = []

    @property
    def body(self) -> bytes:
        """The body so far, if it is kept."""
        return b"".join(self._pieces)

    def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Note that the answer begins."""
        del status, headers
        self.started = True

    def write(self, data: bytes) -> None:
        """Take a piece."""
        if self._keeps:
            self._pieces.append(data)

    def finish(self) -> None:
        """Do nothing: the pipeline returns when the answer is over."""

    def abort(self) -> None:
        """Do nothing: there is no connection."""

    def watch(
        self, *, on_gone: Callable[[], None], on_pause: Callable[[], None], on_resume: Callable[[], None]
    ) -> None:
        """Do nothing: there is no client to watch."""
