"""Versions with their workers, tenants and adapters, and the pool of memory that a machine's workers share."""

from collections.abc import Collection, Sequence

from penstock.views.elements import Cell, Listing, Record, of, table
from penstock.views.words import when

_ASLEEP = ("sleeping", "waking")
"""States shown beside the number; in all others a worker holds its memory."""


def listed(versions: Sequence[Record]) -> Listing:
    price = of(lambda found: "/".join(f"{micro_usd / 1e6:g}" for micro_usd in found.values()), "price")
    engine = of(lambda found: ", ".join(f"{name}={value}" for name, value in found.items()), "engine")
    size = of(lambda found: f"{found / 1e6:.0f}", "size_bytes")
    columns: dict[str, Cell] = {
        "version": "id",
        "task": "task",
        "tier": "tier",
        "MB": size,
        "$/Mtok": price,
        "licence": "licence",
    }
    more: dict[str, Cell] = {"workers": workers, "engine": engine, "aliases": of(", ".join, "aliases")}
    registered: dict[str, Cell] = {"registered": of(when, "created_at")}
    return table(
        "Versions",
        versions,
        columns | more | registered,
        lambda one: "; ".join(filter(None, (owners(one), adapter(one)))),
    )


def running(versions: Sequence[Record]) -> Listing:
    aliases = of(", ".join, "aliases")
    columns: dict[str, Cell] = {"version": "id", "task": "task", "workers": workers, "aliases": aliases}
    return table("Versions", versions, columns, adapter)


def owners(version: Record) -> str:
    tenants = version.get("tenants")
    if tenants is None:
        return ""
    return f"for {', '.join(tenants)} alone" if tenants else "for no tenant: none of its own is one of its base's"


def adapter(version: Record) -> str:
    if not version.get("base"):
        return ""
    held = ", ".join(version["resident"])
    refused = "".join(f"; REFUSED by {one}" for one in version.get("refused", ()))
    return f"an adapter of {version['base']}, held by {held or 'no worker now'}{refused}"


def workers(version: Record) -> str:
    if version.get("base"):
        return _switched(version)
    states = version.get("states", {})
    told = [f"{states[state]} {state}" for state in _ASLEEP if states.get(state)]
    told += ["pinned"] if version.get("pinned") else []
    return f"{version['replicas']}" + (f" ({', '.join(told)})" if told else "")


def without_workers(found: Sequence[Record], named: Collection[object]) -> list[str]:
    replicas = {one["id"]: one["replicas"] for one in found}
    lacking = [
        one["id"] for one in found if one["id"] in named and not min(one["replicas"], replicas.get(one.get("base"), 1))
    ]
    return [
        f"{version} has 0 workers deployed: its callers are refused until `penstock models scale {version} 1`"
        for version in lacking
    ]


def _switched(adapter: Record) -> str:
    if not adapter["replicas"]:
        return "off"
    return "on (pinned)" if adapter.get("pinned") else "on"


def pins(pool: Record | None, versions: Sequence[Record]) -> list[str]:
    pinned = ", ".join(_pinned(one) for one in versions if one.get("pinned") and one["replicas"])
    return [f"pinned, so no other version gets their memory: {pinned}"] if pool is not None and pinned else []


def _pinned(version: Record) -> str:
    base = version.get("base")
    return f"{version['id']} (of {base})" if base else str(version["id"])


def pool(found: Record | None) -> list[str]:
    if found is None:
        return []
    held, limit = (found[name] / 1e6 for name in ("held_bytes", "limit_bytes"))
    waits = "; ".join(f"{one['version']} ({one['requests']} requests)" for one in found["waited_for"])
    told = f"pool: {held:,.0f} of {limit:,.0f} MB held" + (f"; waited for: {waits}" if waits else "")
    return [told, *found.get("unfit", ())]
