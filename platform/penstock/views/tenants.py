"""Tenants, organisations and keys with their plans, their spend, and the audit log."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from operator import itemgetter

from penstock.domain.tenancy.tenant import Plan
from penstock.views.elements import Cell, Listing, Record, listing, of, table
from penstock.views.words import dollars, when

DOLLARS = ("spend_per_day", "spend_per_month")
YES_OR_NO = ("paid", "copied", "zero_retention", "training_use")
TIERS = "service_tiers"
FIELDS = tuple(one.name for one in fields(Plan))
"""The fields of a plan, in the order that they are shown in."""
_PLAIN = {
    "priority": "standard",
    "weight": 1,
    "over_quota": "refuse",
    "paid": True,
    "copied": True,
    "auto_tier": "default",
    "job_attempts": 3,
    "job_deadline_s": 86_400.0,
    "keep_s": 2_592_000.0,
    "keep_answers_s": 86_400.0,
    "zero_retention": False,
    "training_use": False,
    "batch_yield": "share",
}
"""Values without effect as bounds, in addition to bounds of zero."""
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
    plan = {name: of(itemgetter(name), "plan") for name in ("priority", "weight")}
    columns: dict[str, Cell] = {"id": "id", "name": "name", "org": "org", **plan, "plan": of(described, "plan")}
    return table("Tenants", tenants, columns)


def whole(tenant: Record) -> Listing:
    plan = tenant["plan"]
    values = [
        (name, dollars(plan[name]) if name in DOLLARS else _tiers(plan[name]) if name == TIERS else plan[name])
        for name in FIELDS
    ]
    title = f"{tenant['id']}: {tenant['name']}, of {tenant['org']}"
    return listing(f"{title}; keeps {tenant['kept_bytes']:,} bytes", ("plan", "value"), values)


def organisations(found: Sequence[Record]) -> Listing:
    return table("Organisations", found, {"id": "id", "name": "name", "bounds": of(described, "plan")})


def keys(found: Sequence[Record]) -> Listing:
    times = {name: of(when, f"{name}_at") for name in ("created", "expires", "revoked")}
    models = of(lambda names: ", ".join(names) or "all", "models")
    columns = {"id": "id", "tenant": "tenant", "role": "role", "models": models, **times}
    return table("Keys", found, {**columns, "bounds": of(described, "plan")})


def budgets(found: Sequence[Record]) -> Listing:
    money = {f"{name} $": of(dollars, name) for name in ("spent", "cap")}
    columns = {"scope": "scope", "window": "window", **money, "used": of("{:.1%}".format, "used_ratio")}
    return table("Budgets", found, {**columns, "ends": of(when, "ends_at")})


def reconciled(found: Sequence[Record]) -> Listing:
    money = {f"{name} $": of(dollars, name) for name in ("ledger", "counted", "difference")}
    return table("Budgets", found, {"scope": "scope", "window": "window", **money})


def usage(tenant: str, found: Record) -> Listing:
    plain = {name: name for name in ("version", "outcome", *_COUNTED)}
    title = f"Usage of {tenant} from {when(found['begin'])} to {when(found['end'])}"
    return table(title, found["lines"], {**plain, "GPU s": of("{:.3f}".format, "gpu_s"), "$": of(dollars, "cost")})


def acts(found: Sequence[Record]) -> Listing:
    plain = {"actor": "who", "action": "what", "target": "target", "tenant": "tenant", "detail": "detail"}
    return table("Audit log", found, {"at (UTC)": of(when, "at"), **plain})


def verification(found: Record) -> list[str]:
    files = f"; {found['links_in_files']:,} in {found['files']:,} shipped segments" if found["files"] else ""
    here = f"{found['links']:,} links in the database, the last is {found['last']:,}, {found['heads']:,} signed heads"
    lines = [f"{here}{files}."]
    if found["kept_elsewhere"] and not found["files"]:
        lines.append(
            f"{found['kept_elsewhere']:,} older segments are in the bucket alone: --from-bucket verifies their acts."
        )
    lines += [f"{one['kind']}: {one['says']}." for one in found["findings"]]
    listed = len(found["findings"])
    if (all_found := sum(found["counts"].values())) > listed:
        lines.append(f"{all_found - listed:,} further findings.")
    lines += [f"late: {one}." for one in found["late"]]
    return [*lines, "The chain is whole." if found["whole"] else "THE CHAIN IS BROKEN."]
