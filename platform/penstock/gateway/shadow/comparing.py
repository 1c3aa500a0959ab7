"""Compares a rule's answers with those of another rule's model: operators see the rate of agreement.

Answers with a form (requested JSON, labels) agree if they are equal. Texts agree if both models find the same token
likeliest at each position of the caller's answer, so sampling has no effect.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from penstock.domain.errors import BadRequest
from penstock.domain.fleet.table import VersionEntry
from penstock.domain.ids import NO_VERSION, Alias, TenantId, VersionId
from penstock.domain.money import FREE
from penstock.domain.outcome import Outcome
from penstock.domain.serving.agreement import PERCENT, Counts, Pair
from penstock.domain.serving.auto import Auto, Rule
from penstock.domain.serving.request import InferenceRequest
from penstock.domain.serving.shadow import Copy, Shadow
from penstock.domain.tenancy.tenant import Principal
from penstock.gateway.calls.call import ENGINES_WORD, Admitted, Answer, no_ids, unknown
from penstock.gateway.calls.inside import Ask, Asked
from penstock.gateway.shadow import copies, scoring
from penstock.gateway.shadow.caps import ComparisonCaps
from penstock.gateway.shadow.copies import Left
from penstock.gateway.shadow.unseen import Original, Unseen

MOST_TOKENS = 8_192
"""Tokens of a request and its answer together: a single longer one would use the rate of many."""
COPY_S = 60.0
"""Seconds that a copy may take, so that it does not delay its tenant's next one longer."""
MOST_DIFFERING = 0.1
"""The largest differing part of tokens of two texts that agree. Rounding in one model stays below 0.07; four bits, a
lost template or a wrong position base are above 0.12 (``scoring``).
"""
_ANSWERED, _ONE = Counts(answered=1), Counts(pairs=1)
_TELLING = ENGINES_WORD | {Outcome.BAD_REQUEST, Outcome.OK}


@dataclass(slots=True, kw_only=True)
class Comparing:
    autos: Callable[[Alias], Auto | None]
    resolve: Callable[[InferenceRequest, Principal], VersionEntry]
    is_awake: Callable[[VersionId], bool]
    """Tells whether a version has a worker that accepts requests now."""
    told: Callable[[Pair, TenantId, Counts], None]
    unseen: Unseen
    _taken: defaultdict[tuple[Alias, str], ComparisonCaps] = field(default_factory=lambda: defaultdict(ComparisonCaps))

    def wants_ids(self, call: Admitted) -> bool:
        """True for each answer of a rule with comparisons: whether its tenant has the turn is known only afterwards."""
        if call.copy is not None:
            return call.copy.pair is not None and call.copy.is_scored
        return self._compared(call) is not None and self.unseen.is_text(call)

    def reads(self, call: Admitted) -> bool:
        return call.copy.pair is not None if call.copy is not None else self._compared(call) is not None

    def ended(self, call: Admitted, answer: Answer, ask: Ask) -> None:
        found = self._compared(call) if call.copy is None else None
        if found is None or answer.outcome is not Outcome.OK:
            return
        alias, rule, other = found
        version = self._led(call, other)
        if version is not None and not copies.is_candidate(call, answer, Shadow(version=version.id)):
            return
        tenant, now = call.principal.tenant, self.unseen.clock.monotonic()
        pair = Pair(alias, rule.name, call.version.id, other.name, version.id if version is not None else NO_VERSION)
        self.told(pair, tenant, _ANSWERED)
        taken = self._taken[alias, rule.name]
        left = self._left_out(call, answer, version)
        if left is None and not taken.may_go(rule.compare_per_s, tenant, now):
            left = Left.CAPS
        if left is not None or version is None:
            self.unseen.left_out(left or Left.UNABLE)
            return
        form = answer.form()
        if not form and (not self.unseen.is_text(call) or answer.ids() is None):
            taken.passed(tenant, now)
            return
        taken.goes(tenant, answer.usage.total_tokens, now)
        note = self._note(call, answer, pair, version)
        self.unseen.spawn(self._compare(ask, Original(call, answer, form), note, version, taken))

    def _compared(self, call: Admitted) -> tuple[Alias, Rule, Rule] | None:
        ruled = call.ruled
        auto = self.autos(Alias(ruled.alias)) if ruled is not None else None
        if ruled is None or auto is None or (rule := auto.named(ruled.rule)) is None:
            return None
        other = auto.named(rule.compare)
        return None if other is None else (auto.alias, rule, other)

    def _led(self, call: Admitted, other: Rule) -> VersionEntry | None:
        try:
            return self.resolve(replace(call.request, model=other.to, price_cap=FREE), call.principal)
        except BadRequest:
            return None

    def _left_out(self, call: Admitted, answer: Answer, version: VersionEntry | None) -> Left | None:
        if not (_has_form(answer) or self.unseen.is_text(call)) or version is None or not self.is_awake(version.id):
            return Left.UNABLE
        if answer.usage.total_tokens > MOST_TOKENS:
            return Left.LARGE
        return copies.left_out(call, Shadow(version=version.id), version)

    def _note(self, call: Admitted, answer: Answer, pair: Pair, version: VersionEntry) -> Copy:
        return Copy(
            of=call.request.id,
            alias=pair.alias,
            tenant=call.principal.tenant,
            sticky="",
            paid=copies.paid(call, answer),
            is_scored=call.version.tokenizer_sha256 == version.tokenizer_sha256 and answer.ids is not no_ids,
            pair=pair,
        )

    async def _compare(
        self, ask: Ask, original: Original, note: Copy, version: VersionEntry, taken: ComparisonCaps
    ) -> None:
        try:
            await asyncio.sleep(self.unseen.apart_s())
            copy = await self.unseen.copy(ask, original.call, note, version, within_s=COPY_S)
            counts = await self._counts(ask, original, copy, note, version)
            if counts is not None and note.pair is not None:
                self.told(note.pair, note.tenant, counts)
        finally:
            taken.ended(note.tenant)

    async def _counts(
        self, ask: Ask, original: Original, copy: Asked, note: Copy, version: VersionEntry
    ) -> Counts | None:
        """Return None if the copy's end says nothing about its model."""
        answer = copy.answer
        if not _is_told(answer.outcome):
            return None
        if answer.outcome is not Outcome.OK:
            return _ONE._replace(failed=1)
        if original.form:
            counts = _by_form(original.form, answer.form())
        else:
            ids = scoring.pair(original.answer.ids(), answer.ids()) if note.is_scored else None
            differs = None if ids is None else await self.unseen.differ(ask, original.call, note, version, ids)
            counts = _by_score(differs)
        return _priced(counts, note.paid, copies.paid(copy.call, answer))


def _has_form(answer: Answer) -> bool:
    return answer.form is not unknown


def _is_told(outcome: Outcome | None) -> bool:
    """A shed copy's end says nothing about its model."""
    return outcome in _TELLING


def _by_form(one: bytes, other: bytes | None) -> Counts:
    if other is None:
        return _ONE._replace(untold=1)
    return _ONE._replace(forms=1, forms_agreed=int(one == other))


def _by_score(differs: float | None) -> Counts:
    if differs is None:
        return _ONE._replace(untold=1)
    return _ONE._replace(texts=1, texts_agreed=int(differs <= MOST_DIFFERING), alike=round(PERCENT * (1 - differs)))


def _priced(counts: Counts, paid: int | None, other: int | None) -> Counts:
    return counts if paid is None or other is None else counts._replace(paid=paid, other_paid=other)
