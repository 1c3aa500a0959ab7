"""The path of evidence: ended request → arm → a second → the store → the judge.

Requests count if versions share their alias. ``control/rollout/evidence.py`` reads each second once for the judge. No
single caller can decide: outcomes count once per sticky key in ten seconds, times and answers once per tenant in a
second; outcomes that callers caused, and requests that name a version, not at all. A shadow copy counts as its
candidate's answer, without tokens, unless it was shed. A request that ended at a store of all versions (limits, ledger,
disk) counts for none.

Trade-off: a refusal counts only if the other version takes longer prompts; callers can provoke all others.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Hashable
from functools import partial
from typing import NamedTuple, Protocol

from penstock.domain.clock import Clock
from penstock.domain.errors import ContextTooLong, PenstockError, StoreUnavailable
from penstock.domain.ids import Alias, TenantId, VersionId, WorkerId
from penstock.domain.outcome import Outcome
from penstock.domain.rollout.arms import ArmSecond
from penstock.domain.serving.agreement import Agreement, Counts, Pair
from penstock.domain.serving.request import InferenceRequest
from penstock.domain.serving.request_record import Refusal
from penstock.domain.serving.shadow import Copy
from penstock.domain.tenancy.tenant import Principal
from penstock.gateway.calls.call import ENGINES_WORD, Answer, Call
from penstock.gateway.evidence import answers
from penstock.gateway.evidence.totals import Arm, Totals
from penstock.telemetry import logs


class Once:
    """Admits at most ``most`` keys in ``span_s`` seconds: a full set counts nothing new."""

    def __init__(self, span_s: float, most: int) -> None:
        self._span_s, self._most = span_s, most
        self._at: dict[Hashable, float] = {}

    def counts(self, key: Hashable, now: float) -> bool:
        at = self._at.get(key)
        if at is not None and now - at < self._span_s:
            return False
        if len(self._at) >= self._most:
            self._forget(now)
            if len(self._at) >= self._most:
                return False
        self._at.pop(key, None)
        self._at[key] = now
        return True

    def _forget(self, now: float) -> None:
        over = [key for key, at in self._at.items() if now - at >= self._span_s]
        for key in over:
            del self._at[key]


def _met_a_store_of_all(call: Call, answer: Answer) -> bool:
    is_store = answer.refusal is not None and answer.refusal.code == StoreUnavailable.code
    return is_store and call.prepared is not None and call.attempts.worker is None


TELL_EVERY_S = 1.0
ONCE_S = 10.0
MOST_KEYS = 50_000


class Store(Protocol):
    async def tell(self, second: ArmSecond) -> None: ...


class Shared(NamedTuple):
    alias: Alias
    longest: int


class Arms:
    def __init__(
        self,
        clock: Clock,
        gateway: str,
        life: str,
        *,
        sticky: Callable[[InferenceRequest, Principal], str],
        shared: Callable[[str], Shared | None],
        is_alias: Callable[[str], bool],
    ) -> None:
        self._clock, self._gateway, self._life = clock, gateway, life
        self._sticky, self._shared, self._is_alias = sticky, shared, is_alias
        self._asked: Counter[Alias] = Counter()
        self._good, self._bad = Once(ONCE_S, MOST_KEYS), Once(ONCE_S, MOST_KEYS)
        self._arms: dict[Arm, Totals] = {}
        self._compared: dict[tuple[Pair, TenantId], Counts] = {}
        self._seen: set[tuple[Alias, VersionId, TenantId]] = set()
        self._number = 0

    def ended(self, call: Call, answer: Answer) -> None:
        if call.copy is not None:
            self._copied(call, answer, call.copy)
            return
        if self._is_alias(call.request.model):
            self._asked[Alias(call.request.model)] += 1
        shared = self._shared(call.request.model)
        version, worker = call.version, call.attempts.worker
        if shared is None or version is None or call.degraded or _met_a_store_of_all(call, answer):
            return
        arm = Arm(shared.alias, version.id, WorkerId("") if worker is None else worker.id)
        sticky = self._sticky(call.request, call.principal)
        if call.fell_back_from:
            self._end(Arm(shared.alias, call.fell_back_from, WorkerId("")), sticky, Outcome.NO_CAPACITY)
        call.tell_outcome(answer, partial(self._end, arm, sticky))
        if shared.longest > version.max_model_len:
            self._too_long(arm, sticky, call, answer.refusal)
        if worker is None:
            return
        counts = self._of(arm)
        usage = answer.usage
        counts.tokens["prompt"] += usage.prompt_tokens
        counts.tokens["output"] += usage.output_tokens
        counts.exposed[call.principal.tenant] += usage.total_tokens
        if answer.outcome in answers.COUNTED and self._is_first(arm, call.principal.tenant):
            answers.count(counts, call, answer, version, worker)

    def judges(self, call: Call) -> bool:
        copy = call.copy
        if copy is not None:
            return copy.is_evidence and copy.pair is None
        return self._shared(call.request.model) is not None

    def differed(self, alias: Alias, candidate: VersionId, ratio: float) -> None:
        self._of(Arm(alias, candidate, WorkerId(""))).differ[round(100 * ratio)] += 1

    def compared(self, pair: Pair, tenant: TenantId, counts: Counts) -> None:
        self._compared[pair, tenant] = self._compared.get((pair, tenant), Counts()).plus(counts)

    def take(self) -> ArmSecond | None:
        """Return the counts since the last call; None if nothing was counted."""
        arms, self._arms, self._seen = self._arms, {}, set()
        asked, self._asked = self._asked, Counter()
        compared, self._compared = self._compared, {}
        if not (arms or asked or compared):
            return None
        self._number += 1
        return ArmSecond(
            gateway=self._gateway,
            life=self._life,
            number=self._number,
            at=math.floor(self._clock.now()),
            arms=tuple(counts.told(arm) for arm, counts in arms.items()),
            asked=tuple(asked.items()),
            left_out=sum(counts.left_out for counts in arms.values()),
            agreements=tuple(
                Agreement(pair=pair, tenant=tenant, counts=counts) for (pair, tenant), counts in compared.items()
            ),
        )

    async def tell(self, store: Store) -> None:
        is_away = False
        while True:
            await asyncio.sleep(TELL_EVERY_S)
            second = self.take()
            if second is None:
                continue
            try:
                await store.tell(second)
            except PenstockError as error:
                if not is_away:
                    logs.logger().warning("evidence_not_told", code=error.code, reason=error.message)
                is_away = True
            else:
                is_away = False

    def _copied(self, call: Call, answer: Answer, copy: Copy) -> None:
        version, worker, outcome = call.version, call.attempts.worker, answer.outcome
        if version is None or not copy.is_evidence or copy.pair is not None:
            return
        arm = Arm(copy.alias, version.id, WorkerId("") if worker is None else worker.id)
        if outcome is Outcome.BAD_REQUEST:
            self._refused(arm, copy.sticky, copy.tenant)
        elif outcome is Outcome.OK or outcome in ENGINES_WORD:
            self._end(arm, copy.sticky, outcome)
        counts = self._of(arm)
        if outcome in answers.COUNTED and worker is not None and self._is_first(arm, copy.tenant):
            answers.count(counts, call, answer, version, worker)

    def _is_first(self, arm: Arm, tenant: TenantId) -> bool:
        who = (arm.alias, arm.version, tenant)
        is_first = who not in self._seen
        self._seen.add(who)
        return is_first

    def _of(self, arm: Arm) -> Totals:
        found = self._arms.get(arm)
        if found is None:
            found = self._arms[arm] = Totals()
        return found

    def _end(self, arm: Arm, sticky: str, outcome: Outcome) -> None:
        key, now = (arm.alias, arm.version, sticky), self._clock.monotonic()
        if outcome is Outcome.OK:
            if self._good.counts(key, now):
                self._of(arm).ends["good"] += 1
        elif outcome.spends_error_budget and self._bad.counts(key, now):
            self._of(arm).ends["bad"] += 1

    def _too_long(self, arm: Arm, sticky: str, call: Call, refusal: Refusal | None) -> None:
        if refusal is not None and refusal.code == ContextTooLong.code:
            self._refused(arm, sticky, call.principal.tenant)

    def _refused(self, arm: Arm, sticky: str, tenant: TenantId) -> None:
        if self._bad.counts((arm.alias, arm.version, sticky), self._clock.monotonic()):
            self._of(arm).spoil(tenant, "refused")
