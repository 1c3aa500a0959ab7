"""The YAML file of an auto alias: its ordered rules, read without trust."""

import json
from math import isfinite
from pathlib import Path
from typing import Any

from penstock.domain.command_error import CommandError
from penstock.domain.money import MICRO_PER_USD
from penstock.domain.serving.auto import MOST_RULES
from penstock.formats.documents import DocumentRefused, yaml_of

MOST_BYTES = 64 << 10
_FIELDS = frozenset(
    "name to prompt_tokens apis tools json images callers price deadline_s compare compare_per_s".split()
)
_PLAIN = "Write `rules:` and a list below it; see `penstock aliases auto --help`."


def read(file: Path) -> list[dict[str, Any]]:
    try:
        with file.open("rb") as opened:
            raw = opened.read(MOST_BYTES + 1)
        if len(raw) > MOST_BYTES:
            raise CommandError(f"{file} has more than {MOST_BYTES >> 10} KiB.", do=f"Write at most {MOST_RULES} rules.")
        content = yaml_of(raw)
    except OSError as error:
        raise CommandError(f"{file} can't be read: {error.strerror}.", do="Name a file with rules.") from error
    except DocumentRefused as error:
        raise CommandError(f"{file}: {error}.", do=_PLAIN) from error
    rules = content.get("rules") if isinstance(content, dict) and content.keys() == {"rules"} else None
    if not isinstance(rules, list):
        raise CommandError(f"{file} holds no rules.", do=_PLAIN)
    return [_rule(rule, number) for number, rule in enumerate(rules, 1)]


def _rule(rule: object, number: int) -> dict[str, Any]:
    if not isinstance(rule, dict) or not {"name", "to"} <= rule.keys():
        raise CommandError(f"Rule {number} has no name or no target.", do="Write at least `name` and `to`.")
    strange = sorted(str(name)[:40] for name in rule.keys() - _FIELDS)
    if strange:
        raise CommandError(f"Rule {number} has {strange[0]!r}.", do=f"Its fields are {', '.join(sorted(_FIELDS))}.")
    price, deadline_s = _number(rule, "price", number), _number(rule, "deadline_s", number)
    often = {"compare_per_s": _number(rule, "compare_per_s", number)} if "compare_per_s" in rule else {}
    try:
        json.dumps(rule)
    except TypeError as error:
        raise CommandError(
            f"Rule {number} holds a value that is neither text nor number, such as a date.", do=_PLAIN
        ) from error
    return {**rule, **often, "price": round(price * MICRO_PER_USD), "deadline_s": deadline_s}


def _number(rule: dict[str, Any], name: str, number: int) -> float:
    value = rule.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or value < 0:
        raise CommandError(f"The {name} of rule {number} is no number from 0 on.", do="Write one, such as 0.40.")
    return float(value)
