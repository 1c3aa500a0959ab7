"""Matches the rules of an auto alias with a request, and words the refusal if no rule fits. Pure.

A rule fits if its conditions hold and its version's manifest allows the request. Load and availability are ignored:
they would change the model within a conversation. A conversation only ever moves to later rules (``asked.py``).
"""

from collections.abc import Sequence
from enum import StrEnum

from penstock.domain.errors import BadRequest, ContextTooLong, InvalidField, NoRuleFits, TooDear, UnsupportedByModel
from penstock.domain.fleet.table import VersionEntry
from penstock.domain.ids import Alias
from penstock.domain.serving.auto import Auto, Rule
from penstock.formats.abilities import Ability
from penstock.gateway.routing.asked import Asked

Script = tuple[str, str, tuple[tuple[str, str], ...]]
"""Inputs that determine a conversation's tokens: tokenizer, template, special tokens."""


class Misfit(StrEnum):
    API = "it is for other APIs"
    WITH_TOOLS = "it is for conversations with tools"
    WITHOUT_TOOLS = "it is for conversations without tools"
    WITH_JSON = "it is for structured answers"
    WITHOUT_JSON = "it is for answers of plain text"
    IMAGES = "it takes no images or other media"
    CALLER = "it is for other callers"
    DEADLINE = "the deadline is too short for it"
    PROMPT = "the prompt is longer than it takes"
    TASK = "its model does not answer this API, or does not chat"
    TOOL_CALLS = "its model was taught no tool calls"
    PRICE = "its model is dearer than the price cap"
    CONTEXT = "prompt and answer do not fit into its model's context"
    DOUBT = "only its engine can tell whether it fits"
    TEMPLATE = "its model does not accept these fields or messages"


_LENGTHS = frozenset({Misfit.PROMPT, Misfit.CONTEXT})
Passed = Sequence[tuple[str, Misfit]]


def misfit(rule: Rule, asks: Asked) -> Misfit | None:
    """The first condition that does not hold, apart from those that need the version."""
    lacks = (
        (bool(rule.apis) and asks.api not in rule.apis, Misfit.API),
        (rule.tools is True and not asks.tools, Misfit.WITH_TOOLS),
        (rule.tools is False and asks.tools, Misfit.WITHOUT_TOOLS),
        (rule.json is True and not asks.json, Misfit.WITH_JSON),
        (rule.json is False and asks.json, Misfit.WITHOUT_JSON),
        (asks.images and not rule.images, Misfit.IMAGES),
        (bool(rule.callers) and asks.caller not in rule.callers, Misfit.CALLER),
        (0 < asks.deadline_s < rule.deadline_s, Misfit.DEADLINE),
    )
    return next((why for is_lacking, why in lacks if is_lacking), None)


def unable(rule: Rule, version: VersionEntry, asks: Asked) -> Misfit | None:
    if asks.calls and not (version.tool_parser and (version.renders is None or Ability.TOOLS in version.renders)):
        return Misfit.TOOL_CALLS
    if rule.price and version.price.dearest > rule.price:
        return Misfit.PRICE
    return None


def of_error(error: BadRequest) -> Misfit:
    if isinstance(error, ContextTooLong):
        return Misfit.CONTEXT
    if isinstance(error, TooDear):
        return Misfit.PRICE
    return Misfit.TASK if isinstance(error, UnsupportedByModel) else Misfit.TEMPLATE


def script_of(version: VersionEntry) -> Script:
    """Versions with equal ones count the same tokens."""
    return version.tokenizer_sha256, version.chat_template, version.special_tokens


def first_of(auto: Auto, kept: str) -> int:
    return next((number for number, rule in enumerate(auto.rules) if rule.name == kept), 0) if kept else 0


def nothing_fits(alias: Alias, passed: Passed, last: BadRequest | None) -> BadRequest:
    """Say each rule's misfit, or the one fault that all rules share."""
    if last is not None and all(why is Misfit.TEMPLATE for _, why in passed) and isinstance(last, InvalidField):
        return last
    if last is not None and last.reason and isinstance(last, ContextTooLong):
        return last  # the plan's bound, whatever the rule
    if not passed:
        return NoRuleFits(f"no rule of {alias} leads to a model that this key may use", param="model")
    says = f"no rule of {alias} fits: " + "; ".join(f"{name}: {why}" for name, why in passed)
    kind = ContextTooLong if all(why in _LENGTHS for _, why in passed) else NoRuleFits
    return kind(says, param="model")
