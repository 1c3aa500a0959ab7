"""Safety packs, their interventions and counts."""

from collections.abc import Sequence
from operator import itemgetter

from penstock.views.elements import Cell, Listing, Record, listing, of, table
from penstock.views.words import when


def packs(found: Record) -> Listing:
    floor = ", ".join(found["floor"]) or "none"
    columns: dict[str, Cell] = {
        "pack": lambda pack: f"{pack['id']}@{pack['version']}",
        "served": of(lambda is_current: "yes" if is_current else "", "is_current"),
        "mode": "mode",
        "rules": of(len, "rules"),
        "digest": of(itemgetter(slice(12)), "digest"),
        "pushed": of(when, "created_at"),
    }
    return table(f"Packs; the floor of the platform: {floor}", found["packs"], columns)


def events(found: Sequence[Record]) -> Listing:
    plain = ("tenant", "request", "version", "pack", "rule", "stage", "action", "position")
    return table("Interventions", found, {"at": of(when, "at"), **{name: name for name in plain}})


def stats(found: Record) -> Listing:
    """Return counts by rule, with the share of the tenant's requests: of an observed rule, what it would block."""
    served = {one["tenant"]: one["requests"] for one in found["served"]}
    rows = [(*map(rule.__getitem__, _COUNTED), _share(rule, served)) for rule in found["rules"]]
    return listing("Interventions by rule", (*_COUNTED, "of all requests"), rows)


_COUNTED = ("tenant", "pack", "rule", "stage", "action", "wanted", "interventions", "requests")


def _share(rule: Record, served: Record) -> str:
    return f"{rule['requests'] / max(rule['requests'], served.get(rule['tenant'], 0)):.2%}"


def tried(found: Sequence[Record]) -> Listing:
    columns = {name: name for name in ("rule", "category", "action", "at", "characters")}
    return table("What the pack finds", found, columns)
