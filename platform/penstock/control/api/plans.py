"""Plans from bodies: validation of their bounds, and changes of them."""

import re
from dataclasses import fields, replace

from penstock.control.api.bodies import Changes
from penstock.control.api.ports import TenancyStore
from penstock.domain.clock import DAY_S
from penstock.domain.errors import InvalidField
from penstock.domain.fleet.worker import POOL
from penstock.domain.jobs.batch import window_s, windows
from penstock.domain.jobs.file import LEAST_KEPT_S
from penstock.domain.money import THOUSAND
from penstock.domain.tenancy import batch_hours
from penstock.domain.tenancy.audit import Act
from penstock.domain.tenancy.service_tiers import named
from penstock.domain.tenancy.tenant import CAPS, FETCHED_S, MOST_RESERVED, Plan, Priority, ScopeId, ScopeKind, TierName

_PLAIN = Plan()
_ROUNDING = 1e-6
MOST = 2**53
"""The limits store counts in doubles, exact up to this value."""
_WHO = {ScopeKind.KEY: "a key", ScopeKind.ORG: "an organisation"}
_OF_JOBS = ("batch_enqueued_tokens", "batch_jobs", "file_bytes", "files")
_BETWEEN = {
    "job_attempts": (1, 100),
    "job_deadline_s": (1, 30 * DAY_S),
    "keep_s": (LEAST_KEPT_S, 366 * DAY_S),
    "keep_files_s": (LEAST_KEPT_S, 366 * DAY_S),
    "keep_answers_s": (FETCHED_S, DAY_S),
    "keep_matches_s": (LEAST_KEPT_S, 90 * DAY_S),
}
"""A job without a bound of attempts, of time or of its results' life would stay for ever. What is fetched later is kept
for an hour at least, as OpenAI's files are; answers under idempotency keys are for retries, which come in a minute.
"""
_OR_ZERO = {"keep_files_s": "as keep_s", "keep_matches_s": "none is kept"}
MOST_WINDOWS = MOST_POOLS = 16
MOST_FACTOR = 1000.0
"""The highest price factor of a service tier: a larger one is a typing error."""


def checked(plan: Plan, kind: ScopeKind, param: str = "plan.") -> Plan:
    """Return the plan, or raise ``InvalidField``, which names the field after the prefix ``param``."""
    if not 1 <= plan.weight <= MOST:
        raise InvalidField("a weight is at least 1", param=f"{param}weight")
    for name in (*CAPS, "degrade_output_tokens", *_OF_JOBS):
        value = getattr(plan, name)
        if not 0 <= value <= MOST:
            raise InvalidField("a bound is zero (none) or more", param=param + name)
    if not 0 <= plan.reserved <= MOST_RESERVED:
        raise InvalidField(f"at most {MOST_RESERVED} of an engine can be reserved", param=f"{param}reserved")
    if plan.reserved and not plan.paid:
        raise InvalidField("capacity is reserved for paying tenants", param=f"{param}reserved")
    if not 0 <= plan.kv_part <= 1 or 0 < plan.kv_part < plan.reserved:
        raise InvalidField("a part of the KV cache is from what is reserved to 1; 0: no bound", param=f"{param}kv_part")
    _check_tiers(plan, param)
    _check_jobs(plan, param)
    others = (one.name for one in fields(Plan) if one.name not in CAPS)
    own = next((name for name in others if getattr(plan, name) != getattr(_PLAIN, name)), None)
    if own and kind is not ScopeKind.TENANT:
        raise InvalidField(f"{own} is a tenant's; {_WHO[kind]} has bounds only", param=param + own)
    return plan


def _check_tiers(plan: Plan, param: str) -> None:
    at, names = f"{param}service_tiers", [tier.name for tier in plan.service_tiers]
    if TierName.DEFAULT in names or len(set(names)) < len(names):
        raise InvalidField("each service tier is named once; default is the plan's own class and price", param=at)
    for tier in plan.service_tiers:
        thousandths = tier.price_factor * THOUSAND
        if not 0 <= tier.price_factor <= MOST_FACTOR or abs(thousandths - round(thousandths)) > _ROUNDING:
            raise InvalidField(f"a price factor is from 0 to {MOST_FACTOR:g}, with at most three decimals", param=at)
        if not plan.paid and tier.priority is not Priority.BATCH:
            raise InvalidField("a service tier above batch is for paying tenants", param=at)
    if plan.auto_tier not in named(plan):
        raise InvalidField(f"auto_tier must be one of {', '.join(named(plan))}", param=f"{param}auto_tier")


def _check_jobs(plan: Plan, param: str) -> None:
    for name, (least, most) in _BETWEEN.items():
        value = getattr(plan, name)
        if not least <= value <= most and (value or name not in _OR_ZERO):
            usual = (
                f", or 0: {zero}" if (zero := _OR_ZERO.get(name)) else f"; {getattr(_PLAIN, name):,.0f} is the default"
            )
            raise InvalidField(f"{name} is from {least:,.0f} to {most:,.0f}{usual}", param=param + name)
    try:
        offered = windows(plan)
        if len(offered) > MOST_WINDOWS or max(map(window_s, offered)) > _BETWEEN["job_deadline_s"][1]:
            raise InvalidField(f"at most {MOST_WINDOWS} windows, of at most 30 days", param=f"{param}batch_windows")
    except ValueError as error:
        raise InvalidField(str(error), param=f"{param}batch_windows") from error
    try:
        batch_hours.parsed(plan.batch_hours)
    except ValueError as error:
        raise InvalidField(str(error), param=f"{param}batch_hours") from error
    if len(plan.pools) > MOST_POOLS or not all(re.fullmatch(POOL, pool) for pool in plan.pools):
        says = f"pools are written as spot or spot,nights: at most {MOST_POOLS} names of a-z, 0-9 and -"
        raise InvalidField(says, param=f"{param}batch_pools")


def _said(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


async def change(store: TenancyStore, whose: ScopeId, wanted: Changes, act: Act) -> Plan:
    values = wanted.named
    if not values:
        raise InvalidField(f"nothing to change: name at least one of {', '.join(type(wanted).model_fields)}")
    detail = ", ".join(f"{name}={_said(value)}" for name, value in values.items())
    noted = replace(act, target=str(whose), detail=detail)
    plan = await store.change_plan(whose, lambda old: checked(replace(old, **values), whose.kind, ""), noted)
    if plan is None:
        raise InvalidField(f"there is no {whose.kind} {whose.id}", param=whose.kind)
    return plan
