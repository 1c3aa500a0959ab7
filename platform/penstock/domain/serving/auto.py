"""Auto aliases: a model name that stands for ordered rules; the first matching rule chooses the model.

Rules are data, written by operators. A rule has conditions on the request and its caller.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import isfinite

from penstock.domain.ids import Alias
from penstock.domain.money import FREE, MicroUsd
from penstock.domain.serving.request import Api
from penstock.domain.tenancy.standing import Standing

MOST_RULES = 16
"""Rules of one auto alias: each may have to examine the prompt."""
MOST_AUTOS = 64
"""Auto aliases of a table; with their rules they are labels of a metric."""
COMPARED_PER_S = 0.2
"""Default rate of answers that another rule's model is asked too: 720 an hour."""
MOST_COMPARED_PER_S = 10.0
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
"""The form of a rule's name, which is sent in a header."""


class Caller(StrEnum):
    BATCH = "batch"
    FREE = "free"
    PAID = "paid"
    INTERACTIVE = "interactive"


_CALLERS = {
    Standing.SHADOW: Caller.BATCH,
    Standing.BATCH: Caller.BATCH,
    Standing.FREE: Caller.FREE,
    Standing.PAID: Caller.PAID,
    Standing.INTERACTIVE: Caller.INTERACTIVE,
}


def caller_of(standing: Standing) -> Caller:
    return _CALLERS.get(standing, Caller.PAID)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A condition that is left out matches every request."""

    name: str
    to: Alias
    """An alias, or a version as ``name@digest12``; never another auto alias."""
    prompt_tokens: int = 0
    """The most tokens of a prompt, as the rule's model counts them; 0 for no bound but the context."""
    apis: tuple[Api, ...] = ()
    tools: bool | None = None
    """True: only conversations with tools, now or earlier; False: only those without."""
    json: bool | None = None
    """True: only requests for JSON, or another form that a grammar enforces; False: only those for text."""
    images: bool = False
    """Whether the model takes images and other media. No manifest tells which models take images, so a rule has to."""
    callers: tuple[Caller, ...] = ()
    price: MicroUsd = FREE
    """The most that a million tokens may cost, of prompt or of output; 0 for any price."""
    deadline_s: float = 0.0
    """Only requests with a deadline at least this far away; a request without one matches."""
    compare: str = ""
    """The rule whose model is asked a sample of this rule's requests, for the report; empty for none."""
    compare_per_s: float = COMPARED_PER_S
    """The most comparisons a second and gateway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Auto:
    alias: Alias
    rules: tuple[Rule, ...]

    def named(self, name: str) -> Rule | None:
        return next((rule for rule in self.rules if rule.name == name), None)

    def only(self, rules: Sequence[Rule]) -> "Auto":
        names = {rule.name for rule in rules}
        kept = (
            rule if rule.compare in names else replace(rule, compare="", compare_per_s=COMPARED_PER_S) for rule in rules
        )
        return Auto(alias=self.alias, rules=tuple(kept))


@dataclass(frozen=True, slots=True, kw_only=True)
class PastAuto:
    """Former settings, None if they were removed; with their author and time (Unix seconds)."""

    auto: Auto | None
    who: str
    at: float


def fault(auto: Auto, targets: Collection[str], autos: Collection[str]) -> str:
    """Return the first fault, empty if sound; ``targets``: aliases and versions, ``autos``: all auto aliases."""
    if auto.alias in targets:
        return f"{auto.alias} is the name of an alias or a version already"
    if not 1 <= len(auto.rules) <= MOST_RULES:
        return f"an auto alias has 1 to {MOST_RULES} rules, and {auto.alias} has {len(auto.rules)}"
    if len({rule.name for rule in auto.rules}) != len(auto.rules):
        return f"two rules of {auto.alias} have one name"
    faults = (_of_rule(rule, targets, {*autos, auto.alias}) or _of_compared(rule, auto) for rule in auto.rules)
    return next(filter(None, faults), "")


def _of_rule(rule: Rule, targets: Collection[str], autos: Collection[str]) -> str:
    if not NAME.fullmatch(rule.name):
        return f"{rule.name[:80]!r} is no name of a rule: 1 to 63 of a-z, 0-9, '.', '_' and '-'"
    if rule.to in autos:
        return f"the rule {rule.name} leads to {rule.to}, which has rules itself: name an alias or a version"
    if rule.to not in targets:
        return f"the rule {rule.name} leads to {rule.to[:80]!r}, which is no alias and no version"
    if rule.prompt_tokens < 0 or rule.price < 0 or not (isfinite(rule.deadline_s) and rule.deadline_s >= 0):
        return f"the bounds of the rule {rule.name} are numbers from 0 on"
    return ""


def _of_compared(rule: Rule, auto: Auto) -> str:
    if not (isfinite(rule.compare_per_s) and 0 < rule.compare_per_s <= MOST_COMPARED_PER_S):
        return f"compare_per_s of the rule {rule.name} is above 0, and {MOST_COMPARED_PER_S:g} at most"
    if not rule.compare:
        return "" if rule.compare_per_s == COMPARED_PER_S else f"the rule {rule.name} has compare_per_s, but no compare"
    if (other := auto.named(rule.compare)) is None:
        names = ", ".join(one.name for one in auto.rules if one.name != rule.name) or "none other"
        return f"the rule {rule.name} is compared with {rule.compare[:80]!r}, which is no rule of {auto.alias}: {names}"
    if other.to == rule.to:
        return f"the rule {rule.name} is compared with {rule.compare}, which leads to {rule.to} too"
    return ""


def sound(autos: Collection[Auto], targets: Collection[str]) -> tuple[Auto, ...]:
    """Return auto aliases by name, without rules for missing targets."""
    names = {auto.alias for auto in autos} - set(targets)
    kept = []
    for auto in sorted(autos, key=lambda one: one.alias):
        rules = tuple(rule for rule in auto.rules if not _of_rule(rule, targets, names))
        left = auto.only(rules) if len(rules) < len(auto.rules) else auto
        if not fault(left, targets, names):
            kept.append(left)
    return tuple(kept[:MOST_AUTOS])
