"""Continues one stream at another worker: keeps its transcript, and makes the request for the rest."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Protocol

from penstock.domain.errors import ArtifactRefused, PenstockError, StoreUnavailable
from penstock.domain.fleet.table import VersionEntry
from penstock.domain.serving.request import Api
from penstock.domain.serving.shadow import TokenIds
from penstock.gateway.calls.call import Admitted, no_ids
from penstock.gateway.calls.relay import Rest
from penstock.gateway.streaming import continuation
from penstock.gateway.streaming.continuation import MAX_CONTINUATIONS, Cut, Obstacle
from penstock.gateway.streaming.splice import Splice, usage_event
from penstock.gateway.streaming.transcript import Transcript

Take = Callable[[bytes], tuple[int, bytes]]
"""Takes whole events; returns their approximate number of tokens, and the events for the caller."""


def same(plain: Take) -> Take:
    return plain


_DONE = b"data: [DONE]\n\n"
_NO_USAGE = b'{"usage":{}}'


class TokenReader(Protocol):
    async def pieces(
        self, version: VersionEntry, prompt: Sequence[int], output: Sequence[int], *, skip_special: bool
    ) -> list[str]:
        """Return each output token's text: empty if it ends inside a character.

        Raises ``StoreUnavailable`` or ``ArtifactRefused``.
        """
        ...


class End(StrEnum):
    CONTINUED = "continued"
    REFUSED = "refused"
    FAILED = "failed"


NO_WORKER = "no_worker"
"""The continuation failed because no worker accepted it."""
Count = Callable[[End, str], None]


class Continuity:
    """Keeps what a continuation needs; nothing without a reader, or with an obstacle."""

    __slots__ = ("_call", "_count", "_obstacle", "_over", "_reader", "_splice", "_transcript", "_tries", "kept")

    def __init__(
        self, call: Admitted, reader: TokenReader | None, count: Count, over: Callable[[Take], Take] = same
    ) -> None:
        self._call = call
        self._reader = reader
        self._count = count
        self._over = over
        self._obstacle = continuation.obstacle(call.request) if reader is not None else Obstacle.TOKENIZER
        self._transcript = Transcript() if self._obstacle is None else None
        self._splice: Splice | None = None
        self._tries = 0
        self.kept = 0
        """Tokens of the answer before the present attempt."""

    @property
    def keeps(self) -> bool:
        return self._transcript is not None

    def take_or(self, plain: Take) -> Take:
        if self._splice is not None:
            return self._splice.take
        return self._over(plain) if self._transcript is None else self._transcript.take

    def ending(self, *, has_usage: bool) -> bytes:
        """The missing last events of an answer that broke off after its finish reason."""
        transcript = self._transcript
        if transcript is None or not transcript.has_finished or not transcript.is_faithful:
            return b""
        if has_usage:
            return _DONE
        return usage_event(transcript.head, _NO_USAGE, transcript.tokens, len(transcript.prompt)) + _DONE

    def tokens(self, counted: int) -> int:
        """Exact if the engine sends token ids; else ``counted``."""
        transcript = self._transcript
        return transcript.tokens if transcript is not None and transcript.is_faithful else counted

    @property
    def told(self) -> Callable[[], TokenIds | None]:
        """Return a function that refers only to the transcript, since the request keeps it."""
        return no_ids if self._transcript is None else self._transcript.told

    def continued(self) -> None:
        self._count(End.CONTINUED, "")

    def failed(self) -> None:
        self._count(End.FAILED, NO_WORKER)

    async def rest(self, error: PenstockError) -> Rest | None:
        found = self._obstacle or await self._rest(error)
        if isinstance(found, Rest):
            return found
        self._count(End.REFUSED, found)
        return None

    async def _rest(self, error: PenstockError) -> Rest | Obstacle:
        transcript, version = self._transcript, self._call.version
        if transcript is None or not transcript.is_faithful:
            return Obstacle.TEXT
        if self._tries >= MAX_CONTINUATIONS:
            return Obstacle.SPENT
        self._tries += 1
        prompt, output = transcript.prompt, transcript.ids
        cut = await self._cut(version, prompt, output)
        if isinstance(cut, Obstacle):
            return cut
        request = self._call.request
        context = version.max_model_len - len(prompt)
        left = min(request.cost.output_tokens, context) - cut.kept
        if left < 1:
            return Obstacle.LENGTH
        transcript.cut(cut.kept)
        self.kept = cut.kept
        self._splice = Splice(request.api, transcript, cut, len(prompt))
        tokens = prompt + output[: cut.kept]
        return Rest(
            api=Api.COMPLETIONS,
            body=continuation.body_of_rest(request, tokens, cut.kept, left),
            prompt_tokens=len(tokens),
            output_tokens=left,
            error=error,
        )

    async def _cut(self, version: VersionEntry, prompt: list[int], output: list[int]) -> Cut | Obstacle:
        reader, request = self._reader, self._call.request
        if reader is None or self._transcript is None:
            return Obstacle.TOKENIZER
        skips = request.body.get("skip_special_tokens") is not False
        try:
            pieces = await reader.pieces(version, prompt, output, skip_special=skips)
        except (StoreUnavailable, ArtifactRefused):
            return Obstacle.TOKENIZER
        if len(pieces) != len(output):
            return Obstacle.TEXT
        return continuation.cut(
            pieces,
            self._transcript.said,
            continuation.stops_of(request),
            is_greedy=continuation.is_greedy(request),
        )
