"""`penstock aliases auto …`: names that stand for ordered rules, read from a file and shown as a table."""

import json
from math import isfinite
from pathlib import Path
from typing import Any

import yaml

from penstock.apps.cli import tables
from penstock.apps.cli.terminal import out
from penstock.domain.auto import MOST_RULES
from penstock.domain.command_error import CommandError
from penstock.domain.money import MICRO_PER_USD

MOST_BYTES = 64 << 10
_FIELDS = frozenset(
    "name to prompt_tokens apis tools json images callers price deadline_s compare compare_per_s".split()
)
_HOW = "Write `compare: {other}` into the rule {rule}, and some of its requests are asked of the model of {other} too."
_LEGEND = """
agreed: equal JSON where JSON was asked for, equal labels, or texts where both models hold the same token for the
likeliest at nine tenths of the answer's tokens and more. In brackets: where the true ratio lies, with 95 %.
tokens alike: the mean part of such tokens in a text; at most the first 64 are looked at.
could not: the other model refused, or its engine failed. unknown: texts of models with different tokenizers, or nobody
had room to score them. price: of the other one's answers beside these, as if nothing were cached.
Requests with tools, very long ones, and those of tenants that are not copied are never asked twice. That two models
differ does not say which one is right.
""".strip().splitlines()
"""What the figures mean."""
_EMPTY = (
    "Nothing was compared yet. A comparison needs a request that a rule with `compare` has answered, another model",
    "behind the other rule that is awake, and an answer that is JSON, labels or a plain text.",
)
_PLAIN = "Write `rules:` and a list below it; see `penstock aliases auto --help`."


class _NoReferences(yaml.SafeLoader):
    """A loader that follows no reference: ten lines of them may stand for a billion."""

    def compose_node(self, parent: Any, index: Any) -> Any:  # noqa: ANN401  the library's own
        if self.check_event(yaml.AliasEvent):
            raise CommandError("The file refers to a part of itself by `*`.", do="Write that part out.")
        return super().compose_node(parent, index)


def read(file: Path) -> list[dict[str, Any]]:
    """Return the rules of a file as the controller takes them, or raise ``CommandError``."""
    try:
        with file.open("rb") as opened:
            raw = opened.read(MOST_BYTES + 1)
        if len(raw) > MOST_BYTES:
            raise CommandError(f"{file} has more than {MOST_BYTES >> 10} KiB.", do=f"Write at most {MOST_RULES} rules.")
        content = yaml.load(raw, _NoReferences)  # noqa: S506  a kind of SafeLoader
    except OSError as error:
        raise CommandError(f"{file} can't be read: {error.strerror}.", do="Name a file with rules.") from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise CommandError(f"{file} is no YAML.", do=_PLAIN) from error
    rules = content.get("rules") if isinstance(content, dict) and content.keys() == {"rules"} else None
    if not isinstance(rules, list):
        raise CommandError(f"{file} holds no rules.", do=_PLAIN)
    return [_rule(rule, number) for number, rule in enumerate(rules, 1)]


def _rule(rule: object, number: int) -> dict[str, Any]:
    if not isinstance(rule, dict) or not {"name", "to"} <= rule.keys():
        raise CommandError(f"Rule {number} has no name or leads nowhere.", do="Write at least `name` and `to`.")
    strange = sorted(str(name)[:40] for name in rule.keys() - _FIELDS)
    if strange:
        raise CommandError(f"Rule {number} has {strange[0]!r}.", do=f"Its fields are {', '.join(sorted(_FIELDS))}.")
    price, deadline_s = _number(rule, "price", number), _number(rule, "deadline_s", number)
    try:
        json.dumps(rule)
    except TypeError as error:
        raise CommandError(f"Rule {number} holds a date, or what else is no text and no number.", do=_PLAIN) from error
    return {**rule, "price": round(price * MICRO_PER_USD), "deadline_s": deadline_s}


def _number(rule: dict[str, Any], name: str, number: int) -> float:
    value = rule.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or value < 0:
        raise CommandError(f"The {name} of rule {number} is no number from 0 on.", do="Write one, such as 0.40.")
    return float(value)


def show(alias: str, history: list[dict[str, Any]]) -> None:
    """Print the rules in force, and who set them."""
    newest = history[0]
    if newest["auto"] is None:
        out.print(f"{alias} was taken away by {newest['who']} on {tables.when(newest['at'])}.", highlight=False)
        return
    rows = [
        (str(number), rule["name"], rule["to"], ", ".join(conditions(rule)) or "whatever it is able to")
        for number, rule in enumerate(newest["auto"]["rules"], 1)
    ]
    tables.show(f"{alias}: the first rule that fits", ("", "rule", "leads to", "for"), rows)
    out.print(f"set by {newest['who']} on {tables.when(newest['at'])}", highlight=False)


def conditions(rule: dict[str, Any]) -> list[str]:
    """Return what a rule is for, in words."""
    said = {
        "prompt_tokens": f"prompts of at most {rule['prompt_tokens']:,} tokens",
        "apis": " or ".join(rule["apis"]),
        "callers": f"{' or '.join(rule['callers'])} callers",
        "price": f"at most ${rule['price'] / MICRO_PER_USD:g} for a million tokens",
        "deadline_s": f"deadlines of {rule['deadline_s']:g} s and more",
        "images": "images too",
    }
    if rule.get("compare"):
        said["compare"] = f"compared with {rule['compare']}, {rule['compare_per_s']:g} a second at most"
    both = (("tools", "tools"), ("json", "JSON"))
    found = [words for name, words in said.items() if rule[name]]
    return found + [what if rule[name] else f"no {what}" for name, what in both if rule[name] is not None]


def report(found: dict[str, Any]) -> None:
    """Print how often the models of two rules agree."""
    alias, rules = found["auto"]["alias"], found["auto"]["rules"]
    if not any(rule["compare"] for rule in rules):
        out.print(f"No rule of {alias} is compared with another: nothing is asked twice.", highlight=False)
        out.print(_HOW.format(rule=rules[-1]["name"], other=rules[0]["name"]), highlight=False, soft_wrap=True)
        return
    rows = [
        (
            f"{pair['rule']} ({pair['version']})",
            f"{pair['other']} ({pair['other_version']})",
            f"{pair['pairs']:,}",
            _agreed(pair),
            _percent(pair["alike_ratio"]),
            f"{pair['failed']:,}",
            f"{pair['untold']:,}",
            "-" if pair["price_ratio"] is None else f"{pair['price_ratio']:.2f} times",
        )
        for pair in found["pairs"]
    ]
    columns = ("answered by", "asked too", "requests", "agreed", "tokens alike", "could not", "unknown", "price")
    tables.show(f"{alias}: how often another rule's model would have agreed, last {found['hours']:g} h", columns, rows)
    for line in _LEGEND if rows else _EMPTY:
        out.print(line, style="dim", highlight=False, markup=False, soft_wrap=True)


def _agreed(pair: dict[str, Any]) -> str:
    """Return how often, and between which ratios that is."""
    if pair["ratio"] is None:
        return "-"
    low, high = pair["between"]
    return f"{pair['ratio']:.0%} ({low:.0%} to {high:.0%})"


def _percent(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.0%}"
