"""Makes a request's record: from its call and answer if it reached the pipeline, else from its refusal.

A tenant's records of free requests are kept at a bounded rate; further ones go to a separate folder, so that a flood
pushes no other records off the disk.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

from penstock.domain.clock import Clock
from penstock.domain.errors import PenstockError
from penstock.domain.ids import RequestId, TenantId
from penstock.domain.models.model import Tier
from penstock.domain.outcome import Outcome, Stage
from penstock.domain.serving.request_record import Drawn, Refusal, RequestRecord
from penstock.domain.serving.slo import Indicator, SloTier
from penstock.domain.tenancy.credentials import Claim
from penstock.domain.tenancy.standing import Standing, standing_of
from penstock.gateway.calls.call import Answer, Call
from penstock.gateway.calls.lease import Lease
from penstock.gateway.records.requests import RequestLedger

PER_S = 10.0
AT_ONCE = 200.0
MOST_TENANTS = 4096


class RefusalQuota:
    def __init__(self) -> None:
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def takes(self, tenant: str, now: float) -> bool:
        left, at = self._left.pop(tenant, (AT_ONCE, now))
        left = min(AT_ONCE, left + PER_S * (now - at))
        takes = left >= 1.0
        self._left[tenant] = (left - takes, now)
        if len(self._left) > MOST_TENANTS:
            self._left.popitem(last=False)
        return takes


class Promised(NamedTuple):
    """Seconds: first token, between tokens, whole answer; and the share of gaps that may be late."""

    within_s: tuple[float, float, float]
    most_late_ratio: float


Promises = Mapping[Tier, Promised]
_STANDINGS = {one: one.name.lower() for one in Standing}


class Early(NamedTuple):
    """``arrived_at`` is monotonic, None for just now."""

    id: RequestId
    who: Claim
    api: str
    arrived_at: float | None = None
    stages: dict[Stage, float] = {}  # noqa: RUF012  never changed; a tuple's default


Keep = Callable[[RequestRecord], None]


class Records:
    """A tenant's free requests beyond its rate go to ``crowd``, shortened."""

    def __init__(self, keep: Keep, slos: Mapping[Tier, SloTier], clock: Clock, *, crowd: Keep) -> None:
        self._keep, self._crowd, self._clock = keep, crowd, clock
        self._promises: Promises = {tier: _promised(slo) for tier, slo in slos.items()}
        self._refusals = RefusalQuota()

    def ended(self, call: Call, answer: Answer) -> None:
        now = self._clock.monotonic()
        has_run = answer.usage.total_tokens or (call.attempts.used is not None and call.attempts.used.sequences)
        seconds = now - call.request.arrived_at
        if answer.outcome is not Outcome.OK and not has_run and not self._refusals.takes(call.principal.tenant, now):
            self._crowd(_brief(call, answer, self._clock.now() - seconds, seconds))
            return
        self._keep(_record(call, answer, self._clock.now() - seconds, seconds, self._promises))

    def replayed(self, call: Call, original: RequestId) -> None:
        now, who = self._clock.monotonic(), call.principal
        seconds = now - call.request.arrived_at
        self._place(who.tenant, now)(
            RequestRecord(
                id=call.request.id,
                tenant=who.tenant,
                key=who.key,
                at=self._clock.now() - seconds,
                api=call.request.api,
                outcome=Outcome.OK,
                seconds=seconds,
                stages_s=call.timings.seconds,
                stream=call.request.stream,
                replay_of=original,
            )
        )

    def refused(self, error: PenstockError, early: Early) -> None:
        now, who = self._clock.monotonic(), early.who
        seconds = now - early.arrived_at if early.arrived_at is not None else 0.0
        self._place(who.tenant, now)(
            RequestRecord(
                id=early.id,
                tenant=who.tenant,
                key=who.key,
                at=self._clock.now() - seconds,
                api=early.api,
                outcome=error.outcome,
                seconds=seconds,
                stages_s=early.stages,
                refusal=Refusal.of(error),
            )
        )

    def _place(self, tenant: TenantId, now: float) -> Keep:
        return self._keep if self._refusals.takes(tenant, now) else self._crowd


def _brief(call: Call, answer: Answer, at: float, seconds: float) -> RequestRecord:
    return RequestRecord(
        id=call.request.id,
        tenant=call.principal.tenant,
        key=call.principal.key,
        at=at,
        api=call.request.api,
        outcome=answer.outcome,
        seconds=seconds,
        stages_s=call.timings.seconds,
        refusal=answer.refusal,
        version=call.version.id if call.version is not None else "",
        is_own=call.is_own(answer),
    )


def _record(call: Call, answer: Answer, at: float, seconds: float, promises: Promises) -> RequestRecord:
    request, who, lease, version = call.request, call.principal, call.lease, call.version
    used, usage = call.attempts.used, answer.usage
    slo = who.tier.slo or version.tier if version is not None else None
    promised = promises.get(slo) if slo is not None else None
    longest_s = max(answer.itl_s, default=None)
    is_over_quota = lease is not None and lease.over_quota is not None
    knows = bool(call.attempts.trail) and (usage.exact or usage.total_tokens > 0)
    return RequestRecord(
        id=request.id,
        tenant=who.tenant,
        key=who.key,
        at=at,
        api=request.api,
        outcome=answer.outcome,
        seconds=seconds,
        stages_s=call.timings.seconds,
        refusal=None if answer.outcome is Outcome.OK else answer.refusal,
        version=version.id if version is not None else "",
        tier=slo or "",
        stream=request.stream,
        standing=_STANDINGS[standing_of(who.plan, over_quota=is_over_quota)],
        over_quota=is_over_quota,
        deadline_s=lease.deadline_at - request.arrived_at if lease is not None else None,
        degraded=call.degraded,
        own_deadline=call.own_deadline,
        drawn=_drawn(lease),
        most_tokens=(call.cost.prompt_tokens, call.cost.output_tokens) if lease is not None else None,
        expected_output=lease.expected_output or None if lease is not None else None,
        choices=tuple(call.attempts.choices),
        attempts=tuple(call.attempts.trail),
        continued_s=tuple(moment - request.arrived_at for moment in call.attempts.continued_at),
        prompt_tokens=usage.prompt_tokens if knows else None,
        cached_tokens=usage.cached_tokens if knows else None,
        output_tokens=usage.output_tokens if knows else None,
        exact=usage.exact,
        steps=used.steps if used is not None else None,
        beside=used.beside if used is not None else None,
        ttft_s=answer.ttft_s,
        longest_gap_s=longest_s,
        price=_price(call),
        promised=promised.within_s if promised is not None else None,
        gaps=len(answer.itl_s),
        late_gaps=_late(answer.itl_s, longest_s, promised),
        most_late_ratio=promised.most_late_ratio if promised is not None else 0.0,
        is_own=call.is_own(answer),
        fell_back_from=call.fell_back_from,
        ruled=call.ruled,
        service_tier=who.tier.name,
        price_factor=who.tier.price_factor,
        visible_s=answer.visible_s,
    )


def _promised(slo: SloTier) -> Promised:
    within_s = (slo.within_s(Indicator.TTFT), slo.within_s(Indicator.ITL), slo.within_s(Indicator.LATENCY))
    gaps = slo.objective(Indicator.ITL)
    return Promised(within_s, gaps.error_budget_ratio if gaps is not None else 0.0)


def _late(gaps_s: Sequence[float], longest_s: float | None, promised: Promised | None) -> int | None:
    """Most streams have no gap above the promise, and are not scanned."""
    if promised is None:
        return None
    itl_s = promised.within_s[1]
    return sum(gap_s > itl_s for gap_s in gaps_s) if longest_s is not None and longest_s > itl_s else 0


def _drawn(lease: Lease | None) -> tuple[Drawn, ...] | None:
    if lease is None or not lease.drawn:
        return None if lease is None or lease.drawn is None else ()
    both = zip_longest(lease.drawn, lease.left[: len(lease.drawn)])
    return tuple([Drawn(one.key, one.amount, left, one.capacity) for one, left in both])


def _price(call: Call) -> tuple[int, int, int] | None:
    if call.version is None:
        return None
    price = call.version.price.at(call.principal.tier.price_factor)
    return price.prompt_per_mtok, price.cached_per_mtok, price.output_per_mtok


def refused_early(records: Records, ledger: RequestLedger) -> Callable[[PenstockError, Early], None]:
    """Return a listener that records early refusals and counts those of known tenants."""

    def told(error: PenstockError, early: Early) -> None:
        if early.who.tenant:
            ledger.refused_early(early.who.tenant, error.outcome)
        records.refused(error, early)

    return told
