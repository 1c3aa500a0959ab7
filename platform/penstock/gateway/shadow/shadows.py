"""Sends copies of answered requests to a candidate, and has both versions score the answer.

A copy is sent after its caller's answer, as the platform's own request at the lowest standing, only if the candidate is
no busier than the incumbent. If the incumbent is much busier, further copies, which are no evidence, balance the load.

Trade-off: bodies stay in memory while their copies run, at most ``at_once``, each up to a megabyte.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from penstock.domain.fleet.table import Route, VersionEntry
from penstock.domain.ids import Alias, VersionId
from penstock.domain.outcome import Outcome
from penstock.domain.serving.request import InferenceRequest
from penstock.domain.serving.shadow import Copy, Shadow
from penstock.domain.tenancy.tenant import Principal
from penstock.gateway.calls.call import Admitted, Answer, no_ids
from penstock.gateway.calls.inside import Ask
from penstock.gateway.shadow import copies, scoring
from penstock.gateway.shadow.caps import Taken
from penstock.gateway.shadow.comparing import Comparing
from penstock.gateway.shadow.copies import Left
from penstock.gateway.shadow.unseen import Original, Unseen

MOST_BALLAST = 2
"""Copies of one request, beyond the first, that only keep the candidate as busy as the incumbent."""
APART = 4.0
"""Factor on the delay of such copies: simultaneous copies do not load an engine like separate requests."""


class Routes(Protocol):
    def route(self, name: str) -> Route | None: ...

    def version(self, version: VersionId) -> VersionEntry | None: ...

    def running(self, version: VersionId) -> float: ...


@dataclass(slots=True, kw_only=True)
class Shadows:
    routes: Routes
    sticky: Callable[[InferenceRequest, Principal], str]
    differed: Callable[[Alias, VersionId, float], None]
    """Called with each answer that both versions have scored."""
    unseen: Unseen
    _taken: dict[Alias, Taken] = field(default_factory=dict)

    def wants_ids(self, call: Admitted) -> bool:
        if call.copy is not None:
            return call.copy.is_scored
        route = self.routes.route(call.request.model)
        if route is None or route.shadow is None or not route.shadow.scores:
            return False
        taken, tenant = self._of(route.alias), call.principal.tenant
        has_room = taken.may_score(route.shadow.caps, tenant, self.unseen.clock.monotonic())
        return has_room and self.unseen.is_text(call)

    def ended(self, call: Admitted, answer: Answer, ask: Ask) -> None:
        route = self.routes.route(call.request.model)
        if route is None or route.shadow is None or not copies.is_candidate(call, answer, route.shadow):
            return
        shadow, taken = route.shadow, self._of(route.alias)
        if (version := self.routes.version(shadow.version)) is None:
            return
        left = copies.left_out(call, shadow, version) or self._full(call, shadow, version, taken)
        if left is not None:
            self.unseen.left_out(left)
            return
        for again in range(1 + self._lacks(call, version, taken)):
            if not again or taken.has_room(shadow.caps, self.unseen.clock.monotonic()):
                taken.sent(answer.usage.total_tokens)
                note = self._note(call, answer, route.alias, shadow, is_evidence=not again)
                self.unseen.spawn(self._copy(ask, Original(call, answer), note, shadow, version))

    def _lacks(self, call: Admitted, version: VersionEntry, taken: Taken) -> int:
        return max(0, min(MOST_BALLAST, int(self._less(call, version, taken)) - 1))

    def _less(self, call: Admitted, version: VersionEntry, taken: Taken) -> float:
        if (call.version.base or call.version.id) == (version.base or version.id):
            return 0.0  # the same workers: neither is busier
        coming = taken.coming / max(1, len(version.workers))
        return self.routes.running(call.version.id) - self.routes.running(version.id) - coming

    def _full(self, call: Admitted, shadow: Shadow, version: VersionEntry, taken: Taken) -> Left | None:
        if not taken.has_room(shadow.caps, self.unseen.clock.monotonic()):
            return Left.CAPS
        return Left.FILLED if self._less(call, version, taken) < 0.0 else None

    def _note(self, call: Admitted, answer: Answer, alias: Alias, shadow: Shadow, *, is_evidence: bool) -> Copy:
        return Copy(
            of=call.request.id,
            alias=alias,
            tenant=call.principal.tenant,
            sticky=self.sticky(call.request, call.principal),
            is_evidence=is_evidence,
            paid=copies.paid(call, answer),
            is_scored=is_evidence and shadow.scores and answer.ids is not no_ids,
        )

    async def _copy(self, ask: Ask, original: Original, note: Copy, shadow: Shadow, version: VersionEntry) -> None:
        call, taken = original.call, self._of(note.alias)
        try:
            await self._apart(taken, 1.0 if note.is_evidence else APART)
            copy = await self.unseen.copy(ask, call, note, version)
        finally:
            taken.at_once -= 1
        has_both = note.is_scored and copy.answer.outcome is Outcome.OK
        ids = scoring.pair(original.answer.ids(), copy.answer.ids()) if has_both else None
        if ids is None:
            return
        now = self.unseen.clock.monotonic()
        taken.came(note.tenant, now)
        if taken.may_score(shadow.caps, note.tenant, now):
            taken.scored(note.tenant, now)
            ratio = await self.unseen.differ(ask, call, note, version, ids)
            if ratio is not None:
                self.differed(note.alias, version.id, ratio)

    async def _apart(self, taken: Taken, times: float) -> None:
        try:
            await asyncio.sleep(times * self.unseen.apart_s())
        finally:
            taken.coming -= 1

    def _of(self, alias: Alias) -> Taken:
        taken = self._taken.get(alias)
        if taken is None:
            taken = self._taken[alias] = Taken()
        return taken


@dataclass(frozen=True, slots=True)
class Copying:
    candidates: Shadows
    rules: Comparing

    def ended(self, call: Admitted, answer: Answer, ask: Ask) -> None:
        self.candidates.ended(call, answer, ask)
        self.rules.ended(call, answer, ask)

    def wants_ids(self, call: Admitted) -> bool:
        """Tell whether a shadow copy of this answer needs the engine's token ids."""
        return self.candidates.wants_ids(call) or self.rules.wants_ids(call)
