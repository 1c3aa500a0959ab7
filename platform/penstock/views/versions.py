"""Versions with their workers, tenants and adapters, and the pool of memory that a machine's workers share."""

from collections.abc import Sequence

from penstock.views.elements import Listing, Record, listing
from penstock.views.words import when

_ASLEEP = ("sleeping", "waking")
"""States beside the number; in all others a worker holds its memory."""


def listed(versions: Sequence[Record]) -> Listing:
    rows = [
        (
            version["id"],
            version["task"],
            version["tier"],
            f"{version['size_bytes'] / 1e6:.0f}",
            "/".join(f"{micro_usd / 1e6:g}" for micro_usd in version["price"].values()),
            version["licence"],
            workers(version),
            ", ".join(f"{name}={value}" for name, value in version["engine"].items()),
            ", ".join(version["aliases"]),
            when(version["created_at"]),
        )
        for version in versions
    ]
    columns = ("version", "task", "tier", "MB", "$/Mtok", "licence", "workers", "engine", "aliases", "registered")
    return listing(
        "Versions", columns, rows, ["; ".join(filter(None, (owners(one), adapter(one)))) for one in versions]
    )


def running(versions: Sequence[Record]) -> Listing:
    rows = [(one["id"], one["task"], workers(one), ", ".join(one["aliases"])) for one in versions]
    return listing("Versions", ("version", "task", "workers", "aliases"), rows, [adapter(one) for one in versions])


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


def _switched(adapter: Record) -> str:
    if not adapter["replicas"]:
        return "off"
    return "on (pinned)" if adapter.get("pinned") else "on"


def pins(pool: Record | None, versions: Sequence[Record]) -> list[str]:
    """Return the versions that never sleep; none without a pool."""
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
