"""Asks versions in the platform's own name: a copy of a request, or how likely each of them holds an answer.

Everything goes through the corridor that callers' requests go through, at the lowest standing.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from penstock.domain.clock import Clock
from penstock.domain.fleet.table import VersionEntry
from penstock.domain.ids import RequestId
from penstock.domain.outcome import Outcome
from penstock.domain.serving.request import Api, InferenceRequest
from penstock.domain.serving.shadow import Copy, TokenIds
from penstock.domain.tenancy.cost import Cost
from penstock.gateway.calls.call import Chosen
from penstock.gateway.calls.inside import Ask
from penstock.gateway.shadow import copies, scoring

TRIES, AGAIN_S = 20, 2.0
"""How often a version is asked for a score, and the seconds in between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """Makes the requests; ``ids`` draws theirs."""

    ids: Callable[[], str]
    clock: Clock

    def new_id(self) -> RequestId:
        """Return the id of a request of the platform's own."""
        return RequestId(self.ids())

    async def differ(
        self, ask: Ask, call: Chosen, note: Copy, other: VersionEntry, both: tuple[TokenIds, TokenIds]
    ) -> float | None:
        """Return at which part of the answer's tokens two versions hold another one for the likeliest.

        Each has its own prompt before it, as its engine has rendered the request: a template that was lost is seen.
        None where one of them does not say.
        """
        found, salt = list[list[int]](), copies.salt_of(call, note, note.of)
        # The busier one first: where it has no room, the other need not compute.
        for version, ids in zip((call.version, other), both, strict=True):
            likeliest = await self._likeliest(ask, note, version, ids, salt)
            if likeliest is None:
                return None
            found.append(likeliest)
        return scoring.differ(*found)

    async def _likeliest(
        self, ask: Ask, note: Copy, version: VersionEntry, ids: TokenIds, salt: str
    ) -> list[int] | None:
        """Ask one version; a few times, for everybody else goes first at a busy one."""
        for again in range(TRIES):
            if again:
                await asyncio.sleep(AGAIN_S)
            asked = await ask(self._scoring(version, ids), copies.platform(salt), copy=_unpaid(note))
            if asked.answer.outcome is Outcome.BAD_REQUEST:  # too long for it, say: it will not take it later
                return None
            if asked.answer.outcome is Outcome.OK:
                return await asyncio.to_thread(scoring.likeliest, asked.body, len(ids.prompt))
        return None

    def _scoring(self, version: VersionEntry, ids: TokenIds) -> InferenceRequest:
        tokens = len(ids.prompt) + len(ids.answer)
        return InferenceRequest(
            id=self.new_id(),
            api=Api.COMPLETIONS,
            model=version.id,
            body=scoring.asked(ids),
            stream=False,
            include_usage=False,
            cost=Cost(prompt_tokens=tokens, output_tokens=1, is_counted=True, scores_prompt=True),
            arrived_at=self.clock.monotonic(),
        )


def _unpaid(note: Copy) -> Copy:
    """Return the note of a question about the answer of a copy's original: no evidence of its own."""
    return Copy(of=note.of, alias=note.alias, tenant=note.tenant, sticky=note.sticky, is_evidence=False, pair=note.pair)
