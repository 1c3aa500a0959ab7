"""Requests from inside the platform, and their answers.

Shadow copies and comparisons enter the pipeline here. The pipeline knows neither the senders nor their use of the
answer.
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
    call: Call
    answer: Answer
    body: bytes = b""
    """The reply's bytes; empty if the request had a reply of its own."""
    error: PenstockError | None = None


class Ask(Protocol):
    async def __call__(
        self,
        request: InferenceRequest,
        principal: Principal,
        *,
        copy: Copy | None = None,
        reply: Reply | None = None,
    ) -> Asked:
        """Return the request's end; a refusal is returned, not raised."""
        ...


class BodyReply:
    """A ``Reply`` without a client: it never pauses or disconnects, and keeps or drops the body."""

    def __init__(self, *, keeps: bool = True) -> None:
        self.started, self.gone = False, False
        self._keeps = keeps
        self._pieces: list[bytes] = []

    @property
    def body(self) -> bytes:
        return b"".join(self._pieces)

    def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        del status, headers
        self.started = True

    def write(self, data: bytes) -> None:
        if self._keeps:
            self._pieces.append(data)

    def finish(self) -> None: ...

    def abort(self) -> None: ...

    def watch(
        self, *, on_gone: Callable[[], None], on_pause: Callable[[], None], on_resume: Callable[[], None]
    ) -> None: ...
