"""Plans from bodies: which bounds are valid, and changes of them."""

from dataclasses import replace

from penstock.control.api.bodies import Changes
from penstock.control.api.ports import TenancyStore
from penstock.domain.errors import InvalidField
from penstock.domain.tenancy.audit import Act
from penstock.domain.tenancy.tenant import MOST_RESERVED, Plan, ScopeId, ScopeKind

_PLAIN = Plan()
MOST = 2**53
"""The limits store counts in doubles, which are exact up to here."""
_BOUNDS = (
    "max_context_tokens",
    "max_output_tokens",
    "max_concurrent",
    "max_streams",
    "requests_per_min",
    "tokens_per_min",
    "spend_per_day",
    "spend_per_month",
    "degrade_output_tokens",
    "deadline_s",
)
_WHO = {ScopeKind.KEY: "a key", ScopeKind.ORG: "an organisation"}
_TENANTS_OWN = (
    "priority",
    "weight",
    "degrade_output_tokens",
    "degrade_model",
    "paid",
    "over_quota",
    "copied",
    "reserved",
)


def checked(plan: Plan, kind: ScopeKind, param: str = "plan.") -> Plan:
    """Raise ``InvalidField`` with ``param`` before the field's name."""
    if not 1 <= plan.weight <= MOST:
        raise InvalidField("a weight is at least 1", param=f"{param}weight")
    for name in _BOUNDS:
        value = getattr(plan, name)
        if not 0 <= value <= MOST:
            raise InvalidField("a bound is zero (none) or more", param=param + name)
    if not 0 <= plan.reserved <= MOST_RESERVED:
        raise InvalidField(f"at most {MOST_RESERVED} of an engine can be reserved", param=f"{param}reserved")
    if plan.reserved and not plan.paid:
        raise InvalidField("capacity is reserved for paying tenants", param=f"{param}reserved")
    own = next((name for name in _TENANTS_OWN if getattr(plan, name) != getattr(_PLAIN, name)), None)
    if own and kind is not ScopeKind.TENANT:
        raise InvalidField(f"{own} is a tenant's; {_WHO[kind]} has bounds only", param=param + own)
    return plan


async def change(store: TenancyStore, whose: ScopeId, wanted: Changes, act: Act) -> Plan:
    named = wanted.named
    if not named:
        raise InvalidField(f"nothing to change: name at least one of {', '.join(type(wanted).model_fields)}")
    detail = ", ".join(f"{name}={value}" for name, value in named.items())
    noted = replace(act, target=str(whose), detail=detail)
    plan = await store.change_plan(whose, lambda old: checked(replace(old, **named), whose.kind, ""), noted)
    if plan is None:
        raise InvalidField(f"there is no {whose.kind} {whose.id}", param=whose.kind)
    return plan
