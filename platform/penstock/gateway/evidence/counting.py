"""Counts ended requests into arms. It runs once per request on the event loop, and only where versions share an alias.

No caller makes evidence: a good and a bad end count once per sticky key in ten seconds, times and answers once per
tenant in a second, an end that is the caller's own doing not at all, nor who named a version instead of an alias. What
an answer is worth counts only where its caller left its end to the model (``domain/wishes.py``). Time in the door's
queue is left out: a tenant's own flood waits there. It must not know where the counts go.

What a fallback had counts against the version that could not take it, too, as the refusal that it would have been:
otherwise a candidate that is always dead would be judged by nobody.

A shadow copy counts as its candidate's answer: under its caller's key, without tokens, since nobody was touched, and
what was shed not at all. It was answered once already, so whatever refuses it is the candidate's doing, and its price
is held against its original's.

Trade-off: a caller's refusal counts only where the other version takes longer prompts. What an engine refuses for
other reasons a caller can choose, and only the same body at both versions tells.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from penstock.domain.clock import Clock
from penstock.domain.errors import ContextTooLong
from penstock.domain.fleet.table import VersionEntry, WorkerEntry
from penstock.domain.ids import Alias, TenantId, VersionId, WorkerId
from penstock.domain.outcome import FinishReason, Outcome, Stage
from penstock.domain.rollout.arms import (
    MOST_STRATA,
    ArmCounts,
    ArmSecond,
    Exposed,
    Priced,
    Stratum,
    Times,
    Worse,
    bucket,
    dearness,
    price_bucket,
    stratum,
)
from penstock.domain.serving.agreement import Agreement, Counts, Pair
from penstock.domain.serving.request import InferenceRequest
from penstock.domain.serving.request_record import Refusal
from penstock.domain.serving.shadow import Copy
from penstock.domain.tenancy.tenant import Principal
from penstock.domain.tokens import Usage
from penstock.gateway.calls.call import ENGINES_WORD, Answer, Call
from penstock.gateway.calls.wishes import BOUNDS, leaves_end
from penstock.gateway.evidence.once import Once

ONCE_S = 10.0
MOST_KEYS = 50_000
MOST_EXPOSED = 50
"""Tenants of an arm that a second names, those with the most."""
EMPTY_TOKENS = 1
"""An answer of one token is its end alone."""


class Arm(NamedTuple):
    """What is counted together."""

    alias: Alias
    version: VersionId
    worker: WorkerId


class Shared(NamedTuple):
    """An alias that several versions answer for: the longest context among them."""

    alias: Alias
    longest: int


@dataclass(slots=True)
class _Counts:
    ttft: Counter[tuple[Stratum, int]] = field(default_factory=Counter)
    itl: Counter[tuple[Stratum, int]] = field(default_factory=Counter)
    price: Counter[tuple[Stratum, int]] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    differ: Counter[int] = field(default_factory=Counter)
    paired: Counter[int] = field(default_factory=Counter)
    prices: dict[TenantId, Counter[tuple[Stratum, int] | int]] = field(default_factory=dict)
    """By tenant: both of the above."""
    tokens: Counter[str] = field(default_factory=Counter)
    exposed: Counter[TenantId] = field(default_factory=Counter)
    worse: Counter[tuple[TenantId, str]] = field(default_factory=Counter)
    left_out: int = 0

    def spoil(self, tenant: TenantId, what: str) -> None:
        """Count one of the ends that a tenant alone must not decide by, and whose it was."""
        self.ends[what] += 1
        self.worse[tenant, what] += 1

    def time(self, of: Counter[tuple[Stratum, int]], where: Stratum, place: int) -> bool:
        """Count a time, or a price; False where there is no room."""
        key = (where, place)
        if key not in of and len(of) >= MOST_STRATA * 4:
            self.left_out += 1
            return False
        of[key] += 1
        return True

    def pay(self, tenant: TenantId, what: tuple[Stratum, int] | int) -> None:
        """Note whose a price was: one of a stratum and bucket, or a step of a copy's."""
        self.prices.setdefault(tenant, Counter())[what] += 1


class Arms:
    """One gateway's evidence of the second that runs."""

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
        """Take who this is, whose requests stay together, which names several versions answer for, and any does."""
        self._clock, self._gateway, self._life = clock, gateway, life
        self._sticky, self._shared, self._is_alias = sticky, shared, is_alias
        self._asked: Counter[Alias] = Counter()
        self._good, self._bad = Once(ONCE_S, MOST_KEYS), Once(ONCE_S, MOST_KEYS)
        self._arms: dict[Arm, _Counts] = {}
        self._compared: dict[tuple[Pair, TenantId], Counts] = {}
        self._seen: set[tuple[Alias, VersionId, TenantId]] = set()
        self._number = 0

    def ended(self, call: Call, answer: Answer) -> None:
        """Count a request that the corridor saw."""
        if call.copy is not None:
            self._copied(call, answer, call.copy)
            return
        if self._is_alias(call.request.model):
            self._asked[Alias(call.request.model)] += 1
        shared = self._shared(call.request.model)
        version, worker = call.version, call.attempts.worker
        if shared is None or version is None or call.degraded:
            return
        arm = Arm(shared.alias, version.id, WorkerId("") if worker is None else worker.id)
        sticky = self._sticky(call.request, call.principal)
        if call.fell_back_from:
            self._end(Arm(shared.alias, call.fell_back_from, WorkerId("")), sticky, Outcome.NO_CAPACITY)
        call.tell_promised(answer, partial(self._end, arm, sticky))
        if shared.longest > version.max_model_len:
            self._too_long(arm, sticky, call, answer.refusal)
        if worker is None:
            return
        counts = self._of(arm)
        usage = answer.usage
        counts.tokens["prompt"] += usage.prompt_tokens
        counts.tokens["output"] += usage.output_tokens
        counts.exposed[call.principal.tenant] += usage.total_tokens
        if answer.outcome is Outcome.OK and self._is_first(arm, call.principal.tenant):
            _answered(counts, call, answer, version, _beside(call, worker))

    def judges(self, call: Call) -> bool:
        """Tell whether this answer will be held against another version's."""
        copy = call.copy
        if copy is not None:
            return copy.is_evidence and copy.pair is None
        return self._shared(call.request.model) is not None

    def differed(self, alias: Alias, candidate: VersionId, ratio: float) -> None:
        """Count an answer that both versions have scored, and the part of its tokens where they differ."""
        self._of(Arm(alias, candidate, WorkerId(""))).differ[round(100 * ratio)] += 1

    def compared(self, pair: Pair, tenant: TenantId, counts: Counts) -> None:
        """Count what came of a comparison between two rules, of a tenant's request."""
        self._compared[pair, tenant] = self._compared.get((pair, tenant), Counts()).plus(counts)

    def take(self) -> ArmSecond | None:
        """Return what was counted since the last time, None where that is nothing; Unix seconds."""
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
            arms=tuple(_told(arm, counts) for arm, counts in arms.items()),
            asked=tuple(asked.items()),
            left_out=sum(counts.left_out for counts in arms.values()),
            agreements=tuple(
                Agreement(pair=pair, tenant=tenant, counts=counts) for (pair, tenant), counts in compared.items()
            ),
        )

    def _copied(self, call: Call, answer: Answer, copy: Copy) -> None:
        """Count a copy of an answered request."""
        version, worker, outcome = call.version, call.attempts.worker, answer.outcome
        if version is None or not copy.is_evidence or copy.pair is not None:
            return
        arm = Arm(copy.alias, version.id, WorkerId("") if worker is None else worker.id)
        if outcome is Outcome.BAD_REQUEST:
            self._refused(arm, copy.sticky, copy.tenant)
        elif outcome is Outcome.OK or outcome in ENGINES_WORD:
            self._end(arm, copy.sticky, outcome)
        counts = self._of(arm)
        if outcome is Outcome.OK and worker is not None and self._is_first(arm, copy.tenant):
            _answered(counts, call, answer, version, _beside(call, worker))

    def _is_first(self, arm: Arm, tenant: TenantId) -> bool:
        """Tell whether this is a tenant's first answer of a version in this second, whichever worker it came from."""
        who = (arm.alias, arm.version, tenant)
        is_first = who not in self._seen
        self._seen.add(who)
        return is_first

    def _of(self, arm: Arm) -> _Counts:
        found = self._arms.get(arm)
        if found is None:
            found = self._arms[arm] = _Counts()
        return found

    def _end(self, arm: Arm, sticky: str, outcome: Outcome) -> None:
        """Count an end as promises do; it may be told seconds after the others."""
        key, now = (arm.alias, arm.version, sticky), self._clock.monotonic()
        if outcome is Outcome.OK:
            if self._good.counts(key, now):
                self._of(arm).ends["good"] += 1
        elif outcome.spends_error_budget and self._bad.counts(key, now):
            self._of(arm).ends["bad"] += 1

    def _too_long(self, arm: Arm, sticky: str, call: Call, refusal: Refusal | None) -> None:
        """Count a prompt that is too long for this version alone."""
        if refusal is not None and refusal.code == ContextTooLong.code:
            self._refused(arm, sticky, call.principal.tenant)

    def _refused(self, arm: Arm, sticky: str, tenant: TenantId) -> None:
        if self._bad.counts((arm.alias, arm.version, sticky), self._clock.monotonic()):
            self._of(arm).spoil(tenant, "refused")


def _answered(counts: _Counts, call: Call, answer: Answer, version: VersionEntry, running: int) -> None:
    """Count a whole answer's times, price and worth."""
    usage, seconds = answer.usage, call.timings.seconds
    where = stratum(usage.prompt_tokens - usage.cached_tokens, running)
    first_s = seconds.get(Stage.PREFILL) or seconds.get(Stage.COMPUTE)
    if first_s:
        counts.time(counts.ttft, where, bucket(first_s))
    if usage.output_tokens > 1:
        itl_s = sum(answer.itl_s) / len(answer.itl_s) if answer.itl_s else _decoding(seconds, usage.output_tokens)
        if itl_s:
            counts.time(counts.itl, where, bucket(itl_s))
    _priced(counts, call, usage, version)
    if call.request.api.generates:
        _worth(counts, call, answer)


def _priced(counts: _Counts, call: Call, usage: Usage, version: VersionEntry) -> None:
    """Count what it cost: a caller's own where nobody but the model decides how long it is; a copy beside its original.

    As if nothing were cached: a candidate's cache is cold, whatever it is worth.
    """
    units = version.price.uncached(prompt=usage.prompt_tokens, output=usage.output_tokens)
    if call.copy is None:
        where, place = Stratum(call.request.cost.body_bytes.bit_length(), 0), price_bucket(units)
        is_free = not call.request.api.generates or leaves_end(call.request.body)
        if is_free and counts.time(counts.price, where, place):
            counts.pay(call.principal.tenant, (where, place))
    elif call.copy.paid is not None and usage.exact:
        step = dearness(units, call.copy.paid)
        counts.paired[step] += 1
        counts.pay(call.copy.tenant, step)


def _worth(counts: _Counts, call: Call, answer: Answer) -> None:
    """Count what an answer is worth, where its caller left its end to the model; a bound ends no answer at once."""
    ends, body, is_cut = counts.ends, call.request.body, answer.finish is FinishReason.LENGTH
    tenant = call.principal.tenant if call.copy is None else call.copy.tenant
    is_json = answer.is_json() if answer.finish is FinishReason.STOP else None  # a cut one is counted as cut
    ends["json asked"] += is_json is not None
    if is_json is False:
        counts.spoil(tenant, "json_broken")
    if not leaves_end(body, BOUNDS):
        return
    ends["answers"] += 1
    if answer.usage.output_tokens <= EMPTY_TOKENS and not is_cut:
        counts.spoil(tenant, "empty")
    if is_cut and all(body.get(name) is None for name in BOUNDS):
        counts.spoil(tenant, "cut")


def _beside(call: Call, worker: WorkerEntry) -> int:
    """Return how many ran beside it, by its worker's own word: the table's is old, and requests come in lots."""
    load = call.attempts.report.load
    return worker.load.running if load is None else max(0, load.running - 1)


def _decoding(seconds: dict[Stage, float], tokens: int) -> float:
    return seconds.get(Stage.DECODE, 0.0) / (tokens - 1)


def _told(arm: Arm, counts: _Counts) -> ArmCounts:
    ends, tokens = counts.ends, counts.tokens
    return ArmCounts(
        alias=arm.alias,
        version=arm.version,
        worker=arm.worker,
        ttft=_times(counts.ttft),
        itl=_times(counts.itl),
        price=_times(counts.price),
        good=ends["good"],
        bad=ends["bad"],
        refused=ends["refused"],
        answers=ends["answers"],
        empty=ends["empty"],
        cut=ends["cut"],
        json_asked=ends["json asked"],
        json_broken=ends["json_broken"],
        differ=tuple(sorted(counts.differ.items())),
        paired=tuple(sorted(counts.paired.items())),
        priced=_priced_by(counts.prices),
        prompt_tokens=tokens["prompt"],
        output_tokens=tokens["output"],
        exposed=tuple(Exposed(tenant, many) for tenant, many in counts.exposed.most_common(MOST_EXPOSED)),
        worse=tuple(Worse(*who, many) for who, many in counts.worse.most_common(MOST_EXPOSED)),
    )


def _priced_by(prices: Mapping[TenantId, Counter[tuple[Stratum, int] | int]]) -> tuple[Priced, ...]:
    most = sorted(prices, key=lambda tenant: prices[tenant].total(), reverse=True)[:MOST_EXPOSED]
    found = []
    for tenant in most:
        price = Counter({what: many for what, many in prices[tenant].items() if not isinstance(what, int)})
        paired = sorted((what, many) for what, many in prices[tenant].items() if isinstance(what, int))
        found.append(Priced(tenant, _times(price), tuple(paired)))
    return tuple(found)


def _times(counts: Counter[tuple[Stratum, int]]) -> tuple[Times, ...]:
    strata: dict[Stratum, list[tuple[int, int]]] = {}
    for (where, place), many in sorted(counts.items()):
        strata.setdefault(where, []).append((place, many))
    return tuple(Times(where, tuple(places)) for where, places in strata.items())
