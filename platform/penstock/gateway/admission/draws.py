"""The draws of a request on its key's, tenant's and organisation's meters: a pure translation of plans.

A bucket holds one minute's amount, as OpenAI's limits do. Budget windows are those of ``domain.budget``.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from penstock.domain.ids import VersionId
from penstock.domain.money import FREE, MicroUsd
from penstock.domain.tenancy.budget import Budget, budgets
from penstock.domain.tenancy.limits import Draw, Measure, MeterKind
from penstock.domain.tenancy.tenant import Scope

__all__ = ["Need", "Scope", "beyond_quota", "draws", "least"]

MOST_REMEMBERED = 4096
"""Cached draws that are the same for every request of a scope."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """The expected tokens, their price, and the slots of one request.

    Tokens that are a bound (``is_bound``) never exceed a whole bucket, so that no bound refuses forever; the excess is
    owed.
    """

    version: VersionId
    tokens: int
    cost: MicroUsd
    stream: bool
    slots: int = 1
    is_bound: bool = False


def draws(scopes: tuple[Scope, ...], need: Need, now: float) -> tuple[Draw, ...]:
    """Return the draws, those with the simplest refusal first; bounds of zero need none. ``now`` is Unix seconds."""
    return tuple(draw for scope in scopes for draw in _of(scope, need, now))


def least(scopes: tuple[Scope, ...], version: VersionId, now: float) -> tuple[Draw, ...]:
    return draws(scopes, Need(version=version, tokens=1, cost=FREE, stream=False), now)


def beyond_quota(wanted: Iterable[Draw]) -> tuple[Draw, ...]:
    """Return the draws of a request over its rates: only slots and budgets, which no request may exceed."""
    return tuple(draw for draw in wanted if draw.kind is not MeterKind.BUCKET)


def _of(scope: Scope, need: Need, now: float) -> Iterator[Draw]:
    plan, model = scope.plan, f"{scope.name}:{need.version}"
    if plan.max_concurrent:
        yield _slots(f"{scope.name}:concurrent", Measure.CONCURRENCY, plan.max_concurrent, need.slots)
    if plan.max_streams and need.stream:
        yield _slots(f"{scope.name}:streams", Measure.STREAMS, plan.max_streams)
    if plan.requests_per_min:
        yield _requests(f"{model}:rpm", plan.requests_per_min)
    if plan.tokens_per_min:
        tokens = min(need.tokens, plan.tokens_per_min) if need.is_bound else need.tokens
        yield _bucket(f"{model}:tpm", Measure.TOKENS, tokens, plan.tokens_per_min)
    for budget in budgets((scope,), now):
        yield _budget(budget, need.cost, now)


@lru_cache(maxsize=MOST_REMEMBERED)
def _slots(key: str, measure: Measure, capacity: int, amount: int = 1) -> Draw:
    return Draw(key=key, kind=MeterKind.SLOTS, measure=measure, amount=amount, capacity=capacity)


@lru_cache(maxsize=MOST_REMEMBERED)
def _requests(key: str, per_min: int) -> Draw:
    return _bucket(key, Measure.REQUESTS, 1, per_min)


def _bucket(key: str, measure: Measure, amount: int, per_min: int) -> Draw:
    return Draw(
        key=key,
        kind=MeterKind.BUCKET,
        measure=measure,
        amount=amount,
        capacity=per_min,
        refill_per_s=per_min / 60,
    )


def _budget(budget: Budget, cost: MicroUsd, now: float) -> Draw:
    return Draw(
        key=budget.meter,
        kind=MeterKind.BUDGET,
        measure=Measure.SPEND,
        amount=cost,
        capacity=budget.cap,
        window_ends_in_s=budget.window.span.end - now,
    )
