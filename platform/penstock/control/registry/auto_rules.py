"""Checks of auto aliases: they are sound, and each rule can match some request with the present models. Pure.

A target may change later; gateways check it with every request and skip a rule that can't match.
"""

from collections.abc import Collection, Mapping, Sequence

from penstock.control.registry.rules import NAME
from penstock.domain.errors import Conflict, InvalidField
from penstock.domain.fleet.table import Route
from penstock.domain.ids import Alias, VersionId
from penstock.domain.models.model import Manifest, ModelVersion, Task
from penstock.domain.serving.auto import MOST_AUTOS, Auto, Rule, fault
from penstock.domain.serving.request import Api
from penstock.formats.abilities import shows_tools


def check_auto(auto: Auto, versions: Sequence[ModelVersion], routes: Sequence[Route], autos: Collection[Auto]) -> Auto:
    if not NAME.fullmatch(auto.alias):
        raise InvalidField("an alias has 1 to 63 of a-z, 0-9, '.', '_' and '-'", param="alias")
    names = {one.alias for one in autos} | {auto.alias}
    if len(names) > MOST_AUTOS:
        raise InvalidField(f"there are {MOST_AUTOS} auto aliases already, the most that there may be", param="alias")
    led = _led(versions, routes)
    if wrong := fault(auto, led, names):
        raise InvalidField(wrong, param="rules")
    for rule in auto.rules:
        if all(_fits_nothing(rule, manifest) for manifest in led[rule.to]):
            why = _fits_nothing(rule, led[rule.to][0])
            raise InvalidField(f"the rule {rule.name} fits nothing: {why}", param="rules")
        if (other := auto.named(rule.compare)) is not None and (why := _not_comparable(rule, other, led)):
            raise InvalidField(f"the rule {rule.name} can't be compared with {other.name}: {why}", param="rules")
    if len({rule.to for rule in auto.rules if _embeds(rule, led[rule.to])}) > 1:
        raise InvalidField("embeddings of different models can't be compared: route them to one model", param="rules")
    return auto


def check_alias(alias: Alias, autos: Collection[Auto]) -> None:
    if alias in {auto.alias for auto in autos}:
        raise Conflict(f"{alias} is an auto alias: remove it first, or take another name")


def check_unled(alias: Alias, autos: Collection[Auto]) -> None:
    led = [f"{rule.name} of {auto.alias}" for auto in autos for rule in auto.rules if rule.to == alias]
    if led:
        raise Conflict(f"a rule leads to {alias}: {', '.join(led[:5])}; change that first")


def _led(versions: Sequence[ModelVersion], routes: Sequence[Route]) -> Mapping[str, Sequence[Manifest]]:
    known: dict[VersionId, Manifest] = {version.id: version.manifest for version in versions}
    led: dict[str, Sequence[Manifest]] = {version: [manifest] for version, manifest in known.items()}
    for route in routes:
        if found := [known[share.version] for share in route.shares if share.version in known]:
            led[route.alias] = found
    return led


def _fits_nothing(rule: Rule, manifest: Manifest) -> str:
    if rule.price and manifest.price.dearest > rule.price:
        return f"{rule.to} costs more than its price"
    apis = [api for api in rule.apis or tuple(Api) if manifest.task in api.tasks]
    if not apis:
        return f"{rule.to} answers none of its APIs"
    if rule.tools and (
        not manifest.engine.tool_parser or not shows_tools(manifest) or not any(api.generates for api in apis)
    ):
        return f"{rule.to} was taught no tool calls"
    return ""


def _not_comparable(rule: Rule, other: Rule, led: Mapping[str, Sequence[Manifest]]) -> str:
    mine, theirs = led[rule.to], led[other.to]
    if len(mine) == len(theirs) == 1 and mine[0] == theirs[0]:
        return f"{rule.to} and {other.to} are one version"
    tasks = {manifest.task for manifest in mine} & {manifest.task for manifest in theirs}
    if not tasks - {Task.EMBED}:
        return "answers are compared of models that write, or that classify, both alike"
    return ""


def _embeds(rule: Rule, manifests: Sequence[Manifest]) -> bool:
    is_open = not rule.apis or any(Task.EMBED in api.tasks for api in rule.apis)
    return is_open and any(manifest.task is Task.EMBED for manifest in manifests)
