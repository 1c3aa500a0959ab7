"""Sends the platform's own requests to versions: a copy of a request, or the scoring of an answer.

They use the callers' pipeline, at the lowest standing.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import NamedTuple

from penstock.domain.clock import Clock
from penstock.domain.fleet.table import VersionEntry
from penstock.domain.ids import RequestId
from penstock.domain.outcome import Outcome
from penstock.domain.serving.request import Api, InferenceRequest
from penstock.domain.serving.shadow import Copy, TokenIds
from penstock.domain.tenancy.cost import Cost
from penstock.domain.tenancy.tenant import Principal
from penstock.gateway.calls.call import Admitted, Answer
from penstock.gateway.calls.inside import Ask, Asked, BodyReply
from penstock.gateway.shadow import copies, scoring
from penstock.gateway.shadow.copies import Left
from penstock.telemetry import names
from penstock.telemetry.metrics import Metrics

TRIES, AGAIN_S = 20, 2.0
"""Attempts to get a score from a version, and the seconds in between."""


Spawn = Callable[[Coroutine[None, None, None]], object]


class Original(NamedTuple):
    """An answered request, with the answer's comparable form if it has one (JSON, labels)."""

    call: Admitted
    answer: Answer
    form: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unseen:
    ids: Callable[[], str]
    clock: Clock
    apart_s: Callable[[], float]
    """Draws a copy's delay in seconds: an engine ends several answers in one step, but callers arrive separately."""
    is_plain: Callable[[InferenceRequest], bool]
    """Tells whether an answer's tokens depend on its prompt's tokens alone."""
    spawn: Spawn
    metrics: Metrics

    def left_out(self, reason: Left) -> None:
        self.metrics.counter(names.SHADOW_LEFT_OUT).labels(reason=reason).inc()

    def is_text(self, call: Admitted) -> bool:
        """True if the tokens can be scored: plain text, after a short prompt."""
        return call.prepared.prompt_tokens <= scoring.MOST_PROMPT and self.is_plain(call.request)

    async def copy(
        self, ask: Ask, call: Admitted, note: Copy, version: VersionEntry, *, within_s: float = 0.0
    ) -> Asked:
        """``within_s`` 0 leaves the deadline to the platform."""
        request = copies.copied(call, version, self._new_id(), self.clock.monotonic(), deadline_s=within_s)
        who = copies.platform(copies.salt_of(call, note, request.id), call)
        return await ask(request, who, copy=note, reply=BodyReply(keeps=False))

    async def differ(
        self, ask: Ask, call: Admitted, note: Copy, other: VersionEntry, both: tuple[TokenIds, TokenIds]
    ) -> float | None:
        """Return None if unknown.

        Each version gets the prompt as its own engine rendered it, so that a lost template shows.
        """
        found, principal = list[list[int]](), copies.platform(copies.salt_of(call, note, note.of), call)
        # The busier one first: where it has no room, the other need not compute.
        for version, ids in zip((call.version, other), both, strict=True):
            likeliest = await self._likeliest(ask, note, version, ids, principal)
            if likeliest is None:
                return None
            found.append(likeliest)
        return scoring.differ(*found)

    async def _likeliest(
        self, ask: Ask, note: Copy, version: VersionEntry, ids: TokenIds, principal: Principal
    ) -> list[int] | None:
        """Retry, since at a busy version all callers go first."""
        for again in range(TRIES):
            if again:
                await asyncio.sleep(AGAIN_S)
            asked = await ask(self._scoring(version, ids), principal, copy=_unpaid(note))
            if asked.answer.outcome is Outcome.BAD_REQUEST:  # too long for it, say: it will not take it later
                return None
            if asked.answer.outcome is Outcome.OK:
                return await asyncio.to_thread(scoring.likeliest, asked.body, len(ids.prompt))
        return None

    def _scoring(self, version: VersionEntry, ids: TokenIds) -> InferenceRequest:
        tokens = len(ids.prompt) + len(ids.answer)
        return InferenceRequest(
            id=self._new_id(),
            api=Api.COMPLETIONS,
            model=version.id,
            body=scoring.asked(ids),
            stream=False,
            include_usage=False,
            cost=Cost(prompt_tokens=tokens, output_tokens=1, is_counted=True, scores_prompt=True),
            arrived_at=self.clock.monotonic(),
        )

    def _new_id(self) -> RequestId:
        return RequestId(self.ids())


def _unpaid(note: Copy) -> Copy:
    return Copy(of=note.of, alias=note.alias, tenant=note.tenant, sticky=note.sticky, is_evidence=False, pair=note.pair)
