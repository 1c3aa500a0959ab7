"""Asks the platform's own models about what rules suspect in a prompt, as requests of the platform itself.

The platform pays, and no policy holds for them: a judge of judges would ask for ever. A model that is away, late or
refuses decides as its rule says, and is counted.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from penstock.domain.clock import Clock
from penstock.domain.ids import KeyId, RequestId
from penstock.domain.serving.request import Api, InferenceRequest
from penstock.domain.tenancy.cost import Cost
from penstock.domain.tenancy.tenant import JUDGES, Plan, Principal, Priority, Role
from penstock.filters import confirming
from penstock.filters.confirming import MOST_ASKED, Suspect
from penstock.filters.hold import Compiled
from penstock.filters.pack import AtBound, Confirm
from penstock.gateway.calls.inside import Asked
from penstock.lateness.awake import timeout

WHO = Principal(
    tenant=JUDGES,
    key=KeyId(JUDGES),
    role=Role.INFER,
    plan=Plan(paid=True, priority=Priority.INTERACTIVE),
    models=(),
    cache_salt=JUDGES,
)
"""A caller waits for it, so it goes before other work."""


class Confirmation(StrEnum):
    CONFIRMED = "confirmed"
    CLEARED = "cleared"
    BLOCK = "block"
    """The model was away, and the rule blocks then."""
    RELEASE = "release"


Ask = Callable[[InferenceRequest, Principal], Awaitable[Asked]]
Tell = Callable[[Confirmation, float], None]
"""Is called with each verdict and the seconds that it took."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirming:
    ask: Ask
    ids: Callable[[], str]
    clock: Clock
    tell: Tell

    async def settled(self, compiled: Compiled, found: Sequence[Suspect]) -> list[Suspect]:
        """Return the matches that stand; each rule's model is asked once, all of them at the same time."""
        asked = [(rule, confirm) for rule in {one.rule for one in found} if (confirm := compiled.confirm(rule))]
        each = [list(dict.fromkeys(one.sentence for one in found if one.rule == rule)) for rule, _ in asked]
        verdicts = await asyncio.gather(*(self._of(one, some) for (_, one), some in zip(asked, each, strict=True)))
        return confirming.kept(found, {rule: verdict for (rule, _), verdict in zip(asked, verdicts, strict=True)})

    async def _of(self, confirm: Confirm, sentences: Sequence[str]) -> frozenset[str]:
        began = self.clock.monotonic()
        found = None if len(sentences) > MOST_ASKED else await self._asked(confirm, sentences)
        took_s = self.clock.monotonic() - began
        if found is not None:
            self.tell(Confirmation.CONFIRMED if found else Confirmation.CLEARED, took_s)
            return found
        self.tell(Confirmation(confirm.away), took_s)
        return frozenset(sentences if confirm.away is AtBound.BLOCK else ())

    async def _asked(self, confirm: Confirm, sentences: Sequence[str]) -> frozenset[str] | None:
        """Return None if the model does not answer in time, or not with vectors."""
        body = confirming.body(confirm, sentences)
        number = len(confirm.like) + len(sentences)
        request = InferenceRequest(
            id=RequestId(self.ids()),
            api=Api.EMBEDDINGS,
            model=confirm.model,
            body=body,
            stream=False,
            include_usage=False,
            cost=Cost(prompts=number, sequences=number, output_tokens=0, body_bytes=sum(map(len, sentences))),
            arrived_at=self.clock.monotonic(),
            deadline_s=confirm.seconds,
        )
        try:
            async with timeout(confirm.seconds):
                asked = await self.ask(request, WHO)
            return None if asked.error is not None else confirming.confirmed(confirm, sentences, asked.body)
        except (TimeoutError, ValueError):
            return None
