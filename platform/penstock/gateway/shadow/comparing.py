"""Asks another rule's model some of what a rule has answered: an operator sees how often it would have agreed.

A rule says which other one it is compared with, and how often. The copies are as those to candidates: after the answer,
unseen, at the lowest standing, billed to the platform, of tenants in turn. They wake nobody, and no judge counts them.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from penstock.domain.agreement import Counts, Pair
from penstock.domain.auto import Auto, Rule
from penstock.domain.call import Answer, Call, no_ids
from penstock.domain.errors import BadRequest
from penstock.domain.ids import Alias, RequestId, VersionId
from penstock.domain.money import FREE
from penstock.domain.outcome import Outcome
from penstock.domain.request import InferenceRequest
from penstock.domain.shadow import Copy, Shadow, ShadowCaps
from penstock.domain.table import VersionEntry
from penstock.domain.tenant import Principal
from penstock.gateway.shadow import agreeing, copies, scoring
from penstock.gateway.shadow.asking import Asking
from penstock.gateway.shadow.caps import Taken
from penstock.gateway.shadow.copies import Left
from penstock.gateway.shadow.shadows import Spawn
from penstock.gateway.shadow.sink import Sink
from penstock.telemetry import names
from penstock.telemetry.metrics import Metrics

AT_ONCE = 4
"""Comparisons of one rule that may run in one gateway."""


@dataclass(slots=True, kw_only=True)
class Comparing:
    """``told`` gets what came of each comparison."""

    autos: Callable[[Alias], Auto | None]
    resolve: Callable[[InferenceRequest, Principal], VersionEntry]
    is_awake: Callable[[VersionId], bool]
    """Tells whether a version has a worker that takes requests now."""
    told: Callable[[Pair, Counts], None]
    is_plain: Callable[[InferenceRequest], bool]
    """Tells whether an answer's tokens follow from its prompt's alone."""
    asking: Asking
    apart_s: Callable[[], float]
    """Draws the seconds that a copy waits."""
    spawn: Spawn
    metrics: Metrics
    _taken: dict[tuple[Alias, str], Taken] = field(default_factory=dict)
    _answers: dict[RequestId, Answer] = field(default_factory=dict)
    """How copies ended that somebody waits for."""

    def wants_ids(self, call: Call) -> bool:
        """Tell whether the engine is to tell the tokens of this answer, so that both models may score it."""
        if call.copy is not None:
            return call.copy.pair is not None and call.copy.is_scored
        found = self._compared(call)
        return found is not None and self._is_text(call) and self._has_room(call, found[0])

    def reads(self, call: Call) -> bool:
        """Tell whether this answer's form will be held against another one's."""
        return call.copy.pair is not None if call.copy is not None else self._compared(call) is not None

    def ended(self, call: Call, answer: Answer) -> None:
        """Ask the other rule's model too, where there is one and room for it."""
        if call.copy is not None:
            if call.copy.pair is not None:
                self._answers[call.request.id] = answer
            return
        found = self._compared(call)
        if found is None:
            return
        rule, other = found
        version = self._led(call, other)
        if version is not None and not copies.is_candidate(call, answer, Shadow(version=version.id)):
            return
        left = self._left_out(call, rule, version)
        if left is not None or version is None:
            self.metrics.counter(names.SHADOW_LEFT_OUT).labels(reason=left).inc()
            return
        taken, tenant, now = self._of(call, rule), call.principal.tenant, self.asking.clock.monotonic()
        if not self._is_comparable(call):
            taken.passed(tenant, now)
            return
        taken.sent(answer.usage.total_tokens)
        taken.scored(tenant, now)
        self.spawn(self._compare(call, self._note(call, answer, found, version), version, taken))

    def _compared(self, call: Call) -> tuple[Rule, Rule] | None:
        """Return the rule that has answered and the one that it is compared with."""
        ruled = call.ruled
        auto = self.autos(Alias(ruled.alias)) if ruled is not None else None
        if ruled is None or auto is None or (rule := auto.named(ruled.rule)) is None:
            return None
        other = auto.named(rule.compare)
        return None if other is None else (rule, other)

    def _led(self, call: Call, other: Rule) -> VersionEntry | None:
        """Return the version that the other rule would lead this caller to; None where that can't be."""
        try:
            return self.resolve(replace(call.request, model=other.to, price_cap=FREE), call.principal)
        except BadRequest:
            return None

    def _left_out(self, call: Call, rule: Rule, version: VersionEntry | None) -> Left | None:
        if version is None or not self.is_awake(version.id):
            return Left.UNABLE
        if (left := copies.left_out(call, Shadow(version=version.id), version)) is not None:
            return left
        self._of(call, rule).came(call.principal.tenant, self.asking.clock.monotonic())
        return None if self._has_room(call, rule) else Left.CAPS

    def _has_room(self, call: Call, rule: Rule) -> bool:
        """Tell whether this tenant has a turn, and the rule's comparisons any left."""
        taken, caps, now = self._of(call, rule), _caps(rule), self.asking.clock.monotonic()
        return taken.may_score(caps, call.principal.tenant, now) and taken.has_room(caps, now)

    def _is_comparable(self, call: Call) -> bool:
        """Tell whether the answer has a form, or is a text whose tokens are known."""
        return bool(call.form()) or (self._is_text(call) and call.ids() is not None)

    def _is_text(self, call: Call) -> bool:
        is_short = call.prepared is not None and call.prepared.prompt_tokens <= scoring.MOST_PROMPT
        return is_short and self.is_plain(call.request)

    def _note(self, call: Call, answer: Answer, rules: tuple[Rule, Rule], version: VersionEntry) -> Copy:
        assert call.ruled is not None  # noqa: S101  who was led has both; tells mypy
        assert call.version is not None  # noqa: S101
        own, other = rules
        return Copy(
            of=call.request.id,
            alias=Alias(call.ruled.alias),
            tenant=call.principal.tenant,
            sticky="",
            paid=copies.paid(call, answer),
            is_scored=call.version.tokenizer_sha256 == version.tokenizer_sha256 and call.ids is not no_ids,
            pair=Pair(Alias(call.ruled.alias), own.name, call.version.id, other.name, version.id),
        )

    async def _compare(self, call: Call, note: Copy, version: VersionEntry, taken: Taken) -> None:
        asking, request = self.asking, self.asking.new_id()
        try:
            await self._apart(taken)
            copy = copies.copied(call, note, version, request, asking.clock.monotonic)
            await asking.ask(copy, Sink())
            counts = await self._counts(call, copy, note, version)
            if counts is not None and note.pair is not None:
                self.told(note.pair, counts)
        finally:
            taken.at_once -= 1
            self._answers.pop(request, None)

    async def _counts(self, call: Call, copy: Call, note: Copy, version: VersionEntry) -> Counts | None:
        """Return what the two answers come to; None where the copy says nothing of its model."""
        if not agreeing.is_told(copy.outcome):
            return None
        if copy.outcome is not Outcome.OK or (answer := self._answers.get(copy.request.id)) is None:
            return agreeing.ONE._replace(failed=1)
        if form := call.form():
            counts = agreeing.by_form(form, copy.form())
        else:
            ids = scoring.pair(call.ids(), copy.ids()) if note.is_scored else None
            counts = agreeing.by_score(None if ids is None else await self.asking.differ(call, note, version, ids))
        return agreeing.priced(counts, note.paid, copies.paid(copy, answer))

    async def _apart(self, taken: Taken) -> None:
        """Wait for the copy's moment."""
        try:
            await asyncio.sleep(self.apart_s())
        finally:
            taken.coming -= 1

    def _of(self, call: Call, rule: Rule) -> Taken:
        assert call.ruled is not None  # noqa: S101  who was led has one; tells mypy
        return self._taken.setdefault((Alias(call.ruled.alias), rule.name), Taken())


def _caps(rule: Rule) -> ShadowCaps:
    return ShadowCaps(per_s=rule.compare_per_s, scored_per_s=rule.compare_per_s, at_once=AT_ONCE)
