"""Aliases with their shares and overrides, and the ordered rules of auto aliases."""

from collections.abc import Iterator, Sequence

from penstock.views.elements import Listing, Record, Shown, line, listing
from penstock.views.words import MICRO, percent, when


def listed(routes: Sequence[Record], autos: Sequence[Record]) -> Listing:
    rows = [
        (
            route["alias"],
            ", ".join(f"{share['version']} {percent(share['weight'])}" for share in route["shares"]),
            ", ".join(f"{one['tenant']} {one['version']}" for one in route.get("overrides", [])),
        )
        for route in routes
    ]
    rows += [
        (auto["alias"], "by rules: " + ", ".join(f"{rule['name']} → {rule['to']}" for rule in auto["rules"]), "")
        for auto in autos
    ]
    return listing("Aliases", ("alias", "versions", "overrides"), rows)


def rules(alias: str, history: Sequence[Record]) -> Iterator[Shown]:
    newest = history[0]
    if newest["auto"] is None:
        yield line(f"{alias} was taken away by {newest['who']} on {when(newest['at'])}.")
        return
    rows = [
        (number, rule["name"], rule["to"], ", ".join(conditions(rule)) or "whatever it is able to")
        for number, rule in enumerate(newest["auto"]["rules"], 1)
    ]
    yield listing(f"{alias}: the first rule that fits", ("", "rule", "leads to", "for"), rows)
    yield line(f"set by {newest['who']} on {when(newest['at'])}")


def conditions(rule: Record) -> list[str]:
    said = {
        "prompt_tokens": f"prompts of at most {rule['prompt_tokens']:,} tokens",
        "apis": " or ".join(rule["apis"]),
        "callers": f"{' or '.join(rule['callers'])} callers",
        "price": f"at most ${rule['price'] / MICRO:g} for a million tokens",
        "deadline_s": f"deadlines of {rule['deadline_s']:g} s and more",
        "images": "images too",
    }
    if rule.get("compare"):
        said["compare"] = f"compared with {rule['compare']}, {rule['compare_per_s']:g} a second at most"
    both = (("tools", "tools"), ("json", "JSON"))
    found = [words for name, words in said.items() if rule[name]]
    return found + [what if rule[name] else f"no {what}" for name, what in both if rule[name] is not None]
