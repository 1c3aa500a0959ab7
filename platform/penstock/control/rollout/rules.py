"""Rules for a rollout's start: candidate and incumbent must be able to share the alias. Pure."""

from collections.abc import Iterable

from penstock.control.rollout import steps
from penstock.domain.errors import Conflict, InvalidField, UnknownModel
from penstock.domain.fleet.table import MOST_OVERRIDES, WEIGHT_TOTAL, Route
from penstock.domain.fleet.versions import Catalogue
from penstock.domain.ids import Alias, VersionId
from penstock.domain.models.model import Manifest, ModelVersion
from penstock.domain.money import Price
from penstock.domain.rollout.rollout import Blast, Kind, Rollout
from penstock.domain.tenancy.owners import said

_TOKENIZER = "tokenizer.json"


def incumbent_of(alias: Alias, routes: Iterable[Route], live: Iterable[Rollout]) -> VersionId:
    """Raises ``UnknownModel``, or ``Conflict`` if several versions share the alias."""
    for other in live:
        if other.alias == alias:
            raise Conflict(f"{alias} has a rollout already, {other.id}: end that one first")
    route = next((one for one in routes if one.alias == alias), None)
    if route is None:
        raise UnknownModel(f"there is no alias {alias}")
    if route.overrides:
        do = f"penstock aliases set {alias} … --no-overrides"
        raise Conflict(f"{alias} has overrides for tenants, which a rollout would undo: remove them first ({do})")
    whole = [share.version for share in route.shares if share.weight == WEIGHT_TOTAL]
    if not whole:
        raise Conflict(f"several versions share {alias}: give one of them 100 % first (penstock aliases set)")
    return whole[0]


def check(rollout: Rollout, known: Catalogue, live: Iterable[Rollout]) -> None:
    check_pair(rollout, known)
    if not any(one.version == rollout.candidate and one.replicas for one in known.deployments):
        do = f"penstock models scale {rollout.candidate} 1"
        raise Conflict(f"{rollout.candidate} is not deployed, so no worker could answer: {do}")
    for other in live:
        if rollout.candidate in (other.candidate, other.incumbent) or rollout.incumbent == other.candidate:
            raise Conflict(f"one of these versions is in the rollout {other.id} of {other.alias}: end that one first")


def check_pair(rollout: Rollout, known: Catalogue) -> None:
    steps.check(rollout)
    first, most = next(one.weight for one in rollout.stages if one.weight) / WEIGHT_TOTAL, rollout.blast.tokens_ratio
    if 0.0 < most < first < 1.0:
        says = f"its first share, {first:.0%}, is above the limit on its tokens, {most:.0%}: it would be held at once"
        raise InvalidField(says, param="blast.tokens_ratio")
    _check_blast(rollout.blast)
    versions = {one.id: one for one in known.versions}
    if rollout.candidate not in versions:
        raise InvalidField(f"there is no version {rollout.candidate}", param="candidate")
    _check_alike(rollout.kind, versions[rollout.incumbent], versions[rollout.candidate])
    _check_owners(rollout, known)


def _check_owners(rollout: Rollout, known: Catalogue) -> None:
    """Otherwise some tenants would lose the alias, or see another tenant's version."""
    owners = known.owners
    mine, theirs = owners.get(rollout.candidate), owners.get(rollout.incumbent)
    if mine != theirs:
        says = f"it is for {said(mine)}, and {rollout.incumbent} is for {said(theirs)}: make them alike first"
        if theirs != ():
            says += f" (penstock models tenants {rollout.candidate} {','.join(theirs or ('--everybody',))})"
        raise InvalidField(says, param="candidate")


def dearer(incumbent: Price, candidate: Price) -> str:
    """Prices that the candidate raises, in dollars per million tokens; empty if none."""
    lines = (
        ("prompt", incumbent.prompt_per_mtok, candidate.prompt_per_mtok),
        ("cached", incumbent.cached_per_mtok, candidate.cached_per_mtok),
        ("output", incumbent.output_per_mtok, candidate.output_per_mtok),
    )
    return ", ".join(f"{name} ${was / 1e6:g} -> ${now / 1e6:g}" for name, was, now in lines if now > was)


def shorter(known: Catalogue, rollout: Rollout) -> str:
    lengths = {one.id: one.manifest.engine.max_model_len for one in known.versions}
    was, now = lengths[rollout.incumbent], lengths[rollout.candidate]
    return f" (its context is {now} tokens, not {was}: it refuses longer prompts)" if now < was else ""


def _check_alike(kind: Kind, incumbent: ModelVersion, candidate: ModelVersion) -> None:
    mine, theirs = candidate.manifest, incumbent.manifest
    if (mine.adapter or theirs.adapter) and _weights_of(candidate) != _weights_of(incumbent):
        says = (
            f"it is served by the workers of another version than {incumbent.id}: adapters are rolled out on one base"
        )
        raise InvalidField(says, param="candidate")
    for what, is_same in (
        ("task", mine.task is theirs.task),
        ("tier", mine.tier is theirs.tier),
        ("runtime", mine.runtime is theirs.runtime),
        ("use of chat messages", bool(mine.chat_template) == bool(theirs.chat_template)),
    ):
        if not is_same:
            raise InvalidField(f"its {what} differs from that of {incumbent.id}", param="candidate")
    if kind is Kind.EQUIVALENT and _tokenizer(mine) != _tokenizer(theirs):
        says = f"its tokenizer differs from that of {incumbent.id}: use --kind different"
        raise InvalidField(says, param="candidate")


def _weights_of(version: ModelVersion) -> str:
    return version.manifest.adapter.base if version.manifest.adapter is not None else version.digest


def _tokenizer(manifest: Manifest) -> str:
    return next((file.sha256 for file in manifest.files if file.path == _TOKENIZER), "")


def _check_blast(blast: Blast) -> None:
    if not 0.0 < blast.tokens_ratio <= 1.0:
        raise InvalidField("tokens_ratio must be above 0 and at most 1", param="blast.tokens_ratio")
    if len(blast.out) + len(blast.first) > MOST_OVERRIDES:
        raise InvalidField(f"at most {MOST_OVERRIDES} tenants stay out or go first", param="blast")
    both = sorted({*blast.out} & {*blast.first})
    if both:
        raise InvalidField(f"{both[0]} can't both keep the incumbent and get the candidate first", param="blast")
