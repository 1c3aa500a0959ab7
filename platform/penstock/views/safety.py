"""Safety packs, their interventions and counts."""

from collections.abc import Sequence
from operator import itemgetter

from penstock.views.elements import Cell, Listing, Record, Shown, of, prose, table
from penstock.views.words import when


def packs(found: Record) -> tuple[Shown, ...]:
    floor = ", ".join(found["floor"]) or "none"
    columns: dict[str, Cell] = {
        "pack": lambda pack: f"{pack['id']}@{pack['version']}",
        "served": of(lambda is_current: "yes" if is_current else "", "is_current"),
        "mode": "mode",
        "rules": of(len, "rules"),
        "digest": of(itemgetter(slice(12)), "digest"),
        "pushed": of(when, "created_at"),
    }
    listed = table(f"Packs; the floor of the platform: {floor}", found["packs"], columns)
    return (listed, *(prose(says) for pack in found["packs"] for says in away(pack)))


def away(pack: Record) -> list[str]:
    """Return a sentence for each rule with a model that can't be asked."""
    return [f"{pack['id']}@{pack['version']}: confirm.model of {rule} {why}." for rule, why in pack["away"].items()]


def events(found: Sequence[Record]) -> Listing:
    plain = ("tenant", "request", "version", "pack", "rule", "stage", "action", "position")
    return table("Interventions", found, {"at": of(when, "at"), **{name: name for name in plain}})


def matches(found: Sequence[Record]) -> Listing:
    """Return interventions with their texts, escaped: a text may have control characters."""
    rows = [{**one["event"], "text": "(shredded)" if one["text"] is None else repr(one["text"])} for one in found]
    plain = ("request", "pack", "rule", "stage", "action", "text")
    return table("Texts of matches", rows, {"at": of(when, "at"), **{name: name for name in plain}})


def stats(found: Record, since: str) -> tuple[Shown, ...]:
    """Return what each rule and each pack did, or if enforced would have done, and its share of a tenant's requests."""
    served = {one["tenant"]: one["requests"] for one in found["served"]}
    counted = sorted([*found["rules"], *found["packs"]], key=lambda one: (one["tenant"], one["pack"], one["rule"]))
    columns: dict[str, Cell] = {
        "tenant": "tenant",
        "pack": "pack",
        "rule": lambda one: one["rule"] or "all rules",
        "what": lambda one: _would(one) if _only_observed(one) else _DID[one["stage"], one["action"]],
        "matches": lambda one: f"{one['interventions']:,}",
        "requests": lambda one: f"{one['requests']:,}",
        "of all requests": lambda one: _share(one, served),
    }
    told = (prose(_if_enforced(one, served)) for one in found["packs"] if _only_observed(one))
    return (table(f"What filters did in the last {since}", counted, columns), *told)


_DID = {
    ("input", "block"): "refused the prompt",
    ("output", "block"): "ended the answer",
    ("output", "mask"): "masked the answer",
    ("input", "observe"): "recorded the prompt",
    ("output", "observe"): "recorded the answer",
}


def _only_observed(one: Record) -> bool:
    return bool(one["action"] == "observe" != one["wanted"])


def _would(one: Record) -> str:
    return f"would have {_DID[one['stage'], one['wanted']]}"


def _if_enforced(one: Record, served: Record) -> str:
    of = f"{one['requests']:,} of {max(one['requests'], served.get(one['tenant'], 0)):,} requests of {one['tenant']}"
    shown = f"penstock safety events --tenant {one['tenant']} --pack {one['pack']}"
    return f"Enforced, {one['pack']} {_would(one)} in {of} ({_share(one, served)}): {shown}"


def _share(one: Record, served: Record) -> str:
    return f"{one['requests'] / max(one['requests'], served.get(one['tenant'], 0)):.2%}"


def tried(found: Sequence[Record]) -> Listing:
    columns = {name: name for name in ("rule", "category", "action", "at", "characters")}
    return table("What the pack finds", found, columns)
