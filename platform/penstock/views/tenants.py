"""Tenants, organisations and keys with their plans, their spend, and the audit log."""

from collections.abc import Mapping, Sequence

from penstock.views.elements import Listing, Record, listing
from penstock.views.words import dollars, when

DOLLARS = ("spend_per_day", "spend_per_month")
NUMBERS = (
    "weight",
    "max_context_tokens",
    "max_output_tokens",
    "max_concurrent",
    "max_streams",
    "requests_per_min",
    "tokens_per_min",
    "degrade_output_tokens",
)
YES_OR_NO = ("paid", "copied")
TIERS = "service_tiers"
FIELDS = (
    "priority",
    *NUMBERS,
    *DOLLARS,
    "degrade_model",
    "deadline_s",
    "paid",
    "over_quota",
    "copied",
    "reserved",
    TIERS,
    "auto_tier",
)
"""The fields of a plan, in the order that they are shown in."""
_PLAIN = {
    "priority": "standard",
    "weight": 1,
    "over_quota": "refuse",
    "paid": True,
    "copied": True,
    "auto_tier": "default",
}
"""Values that bound nothing, beside bounds of zero."""
_COUNTED = ("requests", "prompt_tokens", "cached_tokens", "output_tokens")


def described(plan: Mapping[str, object]) -> str:
    bounds = {name: plan[name] for name in FIELDS if name in plan and plan[name] != _PLAIN.get(name)}
    return " ".join(f"{name}={_word(name, value)}" for name, value in bounds.items() if value or name in YES_OR_NO)


def _word(name: str, value: object) -> object:
    if name in YES_OR_NO:
        return "yes" if value else "no"
    if name == TIERS:
        return _tiers(value)
    return dollars(value) if name in DOLLARS else value


def _tiers(value: object) -> str:
    """Return tiers as they are written: ``flex:batch:0.5``, with commas between them."""
    tiers = value if isinstance(value, list | tuple) else ()
    return ",".join(
        ":".join(
            str(part) for part in (one["name"], one["priority"], f"{one['price_factor']:g}", one.get("slo")) if part
        )
        for one in tiers
    )


def listed(tenants: Sequence[Record]) -> Listing:
    rows = [
        (
            one["id"],
            one["name"],
            one["org"],
            one["plan"]["priority"],
            one["plan"]["weight"],
            described(one["plan"]),
        )
        for one in tenants
    ]
    return listing("Tenants", ("id", "name", "org", "priority", "weight", "plan"), rows)


def whole(tenant: Record) -> Listing:
    plan = tenant["plan"]
    values = [
        (name, dollars(plan[name]) if name in DOLLARS else _tiers(plan[name]) if name == TIERS else plan[name])
        for name in FIELDS
    ]
    return listing(f"{tenant['id']}: {tenant['name']}, of {tenant['org']}", ("plan", "value"), values)


def organisations(found: Sequence[Record]) -> Listing:
    rows = [(one["id"], one["name"], described(one["plan"])) for one in found]
    return listing("Organisations", ("id", "name", "bounds"), rows)


def keys(found: Sequence[Record]) -> Listing:
    rows = [
        (
            key["id"],
            key["tenant"],
            key["role"],
            ", ".join(key["models"]) or "all",
            when(key["created_at"]),
            when(key["expires_at"]),
            when(key["revoked_at"]),
            described(key["plan"]),
        )
        for key in found
    ]
    return listing("Keys", ("id", "tenant", "role", "models", "created", "expires", "revoked", "bounds"), rows)


def budgets(found: Sequence[Record]) -> Listing:
    rows = [
        (
            one["scope"],
            one["window"],
            dollars(one["spent"]),
            dollars(one["cap"]),
            f"{one['used_ratio']:.1%}",
            when(one["ends_at"]),
        )
        for one in found
    ]
    return listing("Budgets", ("scope", "window", "spent $", "cap $", "used", "ends"), rows)


def reconciled(found: Sequence[Record]) -> Listing:
    rows = [
        (one["scope"], one["window"], *(dollars(one[name]) for name in ("ledger", "counted", "difference")))
        for one in found
    ]
    return listing("Budgets", ("scope", "window", "ledger $", "counted $", "difference $"), rows)


def usage(tenant: str, found: Record) -> Listing:
    rows = [
        (one["version"], one["outcome"], *(one[name] for name in _COUNTED), f"{one['gpu_s']:.3f}", dollars(one["cost"]))
        for one in found["lines"]
    ]
    title = f"Usage of {tenant} from {when(found['begin'])} to {when(found['end'])}"
    return listing(title, ("version", "outcome", *_COUNTED, "GPU s", "$"), rows)


def acts(found: Sequence[Record]) -> Listing:
    rows = [(when(act["at"]), act["who"], act["what"], act["target"], act["tenant"], act["detail"]) for act in found]
    return listing("Audit log", ("at (UTC)", "actor", "action", "target", "tenant", "detail"), rows)
