"""Asks another rule's model some of what a rule has answered: an operator sees how often it would have agreed.

A rule says which other one it is compared with, and how often. The copies are as those to candidates: after the answer,
unseen, at the lowest standing, billed to the platform, of tenants in turn. They wake nobody, and no judge counts them.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from penstock.domain.errors import BadRequest
from penstock.domain.fleet.table import VersionEntry
from penstock.domain.ids import NO_VERSION, Alias, RequestId, TenantId, VersionId
from penstock.domain.money import FREE
from penstock.domain.outcome import Outcome
from penstock.domain.serving.agreement import Counts, Pair
from penstock.domain.serving.auto import Auto, Rule
from penstock.domain.serving.request import InferenceRequest
from penstock.domain.serving.shadow import Copy, Shadow
from penstock.domain.tenancy.tenant import Principal
from penstock.gateway.calls.call import Answer, Call, no_ids, unknown
from penstock.gateway.shadow import agreeing, copies, scoring
from penstock.gateway.shadow.asking import Asking
from penstock.gateway.shadow.caps import Compared
from penstock.gateway.shadow.copies import Left
from penstock.gateway.shadow.shadows import Spawn
from penstock.gateway.shadow.sink import Sink
from penstock.telemetry import names
from penstock.telemetry.metrics import Metrics

MOST_TOKENS = 8_192
"""Of a request and its answer together: one longer one would stand for many."""
COPY_S = 60.0
"""Seconds that a copy may take, so that none keeps its tenant's next one waiting for longer."""


@dataclass(slots=True, kw_only=True)
class Comparing:
    """``told`` gets what came of each comparison."""

    autos: Callable[[Alias], Auto | None]
    resolve: Callable[[InferenceRequest, Principal], VersionEntry]
    is_awake: Callable[[VersionId], bool]
    """Tells whether a version has a worker that takes requests now."""
    told: Callable[[Pair, TenantId, Counts], None]
    is_plain: Callable[[InferenceRequest], bool]
    """Tells whether an answer's tokens follow from its prompt's alone."""
    asking: Asking
    apart_s: Callable[[], float]
    """Draws the seconds that a copy waits."""
    spawn: Spawn
    metrics: Metrics
    _taken: defaultdict[tuple[Alias, str], Compared] = field(default_factory=lambda: defaultdict(Compared))
    _answers: dict[RequestId, Answer | None] = field(default_factory=dict)
    """How copies ended that somebody waits for."""

    def wants_ids(self, call: Call) -> bool:
        """Tell whether the engine is to tell the tokens of this answer, so that both models may score it.

        Of each one that a comparing rule answers: whose turn it is when the answer is there, nobody knows before.
        """
        if call.copy is not None:
            return call.copy.pair is not None and call.copy.is_scored
        return self._compared(call) is not None and self._is_text(call)

    def reads(self, call: Call) -> bool:
        """Tell whether this answer's form will be held against another one's."""
        return call.copy.pair is not None if call.copy is not None else self._compared(call) is not None

    def ended(self, call: Call, answer: Answer) -> None:
        """Ask the other rule's model too, where there is one and room for it."""
        if call.copy is not None:
            if call.request.id in self._answers:
                self._answers[call.request.id] = answer
            return
        found = self._compared(call)
        if found is None or call.version is None or answer.outcome is not Outcome.OK:
            return
        alias, rule, other = found
        version = self._led(call, other)
        if version is not None and not copies.is_candidate(call, answer, Shadow(version=version.id)):
            return
        tenant, now = call.principal.tenant, self.asking.clock.monotonic()
        pair = Pair(alias, rule.name, call.version.id, other.name, version.id if version is not None else NO_VERSION)
        self.told(pair, tenant, agreeing.ANSWERED)
        taken = self._taken[alias, rule.name]
        left = self._left_out(call, answer, version)
        if left is None and not taken.may_go(rule.compare_per_s, tenant, now):
            left = Left.CAPS
        if left is not None or version is None:
            self.metrics.counter(names.SHADOW_LEFT_OUT).labels(reason=left).inc()
            return
        form = call.form()
        if not form and (not self._is_text(call) or call.ids() is None):
            taken.passed(tenant, now)
            return
        taken.goes(tenant, answer.usage.total_tokens, now)
        self.spawn(self._compare(call, self._note(call, answer, pair, version), version, form, taken))

    def _compared(self, call: Call) -> tuple[Alias, Rule, Rule] | None:
        """Return the auto alias, its rule that has answered, and the one that this is compared with."""
        ruled = call.ruled
        auto = self.autos(Alias(ruled.alias)) if ruled is not None else None
        if ruled is None or auto is None or (rule := auto.named(ruled.rule)) is None:
            return None
        other = auto.named(rule.compare)
        return None if other is None else (auto.alias, rule, other)

    def _led(self, call: Call, other: Rule) -> VersionEntry | None:
        """Return the version that the other rule would lead this caller to; None where that can't be."""
        try:
            return self.resolve(replace(call.request, model=other.to, price_cap=FREE), call.principal)
        except BadRequest:
            return None

    def _left_out(self, call: Call, answer: Answer, version: VersionEntry | None) -> Left | None:
        if not (_has_form(call) or self._is_text(call)) or version is None or not self.is_awake(version.id):
            return Left.UNABLE
        if answer.usage.total_tokens > MOST_TOKENS:
            return Left.LARGE
        return copies.left_out(call, Shadow(version=version.id), version)

    def _is_text(self, call: Call) -> bool:
        is_short = call.prepared is not None and call.prepared.prompt_tokens <= scoring.MOST_PROMPT
        return is_short and self.is_plain(call.request)

    def _note(self, call: Call, answer: Answer, pair: Pair, version: VersionEntry) -> Copy:
        assert call.version is not None  # noqa: S101  who was answered has one; tells mypy
        return Copy(
            of=call.request.id,
            alias=pair.alias,
            tenant=call.principal.tenant,
            sticky="",
            paid=copies.paid(call, answer),
            is_scored=call.version.tokenizer_sha256 == version.tokenizer_sha256 and call.ids is not no_ids,
            pair=pair,
        )

    async def _compare(
        self, call: Call, note: Copy, version: VersionEntry, form: bytes | None, taken: Compared
    ) -> None:
        """Ask, and tell what the two answers come to; ``form`` is the caller's answer's, which texts have not."""
        asking, request = self.asking, self.asking.new_id()
        self._answers[request] = None
        try:
            await asyncio.sleep(self.apart_s())
            copy = copies.copied(call, note, version, request, asking.clock.monotonic)
            copy.request = replace(copy.request, deadline_s=COPY_S)
            await asking.ask(copy, Sink())
            counts = await self._counts(call, copy, form, version)
            if counts is not None and note.pair is not None:
                self.told(note.pair, note.tenant, counts)
        finally:
            self._answers.pop(request)
            taken.ended(note.tenant)

    async def _counts(self, call: Call, copy: Call, form: bytes | None, version: VersionEntry) -> Counts | None:
        """Return what the two answers come to; None where the copy says nothing of its model."""
        if not agreeing.is_told(copy.outcome) or (note := copy.copy) is None:
            return None
        if copy.outcome is not Outcome.OK or (answer := self._answers[copy.request.id]) is None:
            return agreeing.ONE._replace(failed=1)
        if form:
            counts = agreeing.by_form(form, copy.form())
        else:
            ids = scoring.pair(call.ids(), copy.ids()) if note.is_scored else None
            counts = agreeing.by_score(None if ids is None else await self.asking.differ(call, note, version, ids))
        return agreeing.priced(counts, note.paid, copies.paid(copy, answer))


def _has_form(call: Call) -> bool:
    """Tell whether the answer may have one, without a look at it."""
    return call.form is not unknown
