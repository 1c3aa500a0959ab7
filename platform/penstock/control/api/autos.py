"""Operators: auto aliases, names that stand for ordered rules."""

from dataclasses import dataclass

from fastapi import APIRouter

from penstock.control.api.acts import ActRoute
from penstock.control.api.aliases import SHOWN, AliasRemoved
from penstock.control.api.bodies import NewRules
from penstock.control.api.deps import Controlled, Operator, Overseer
from penstock.control.api.wire import Sent
from penstock.domain.errors import InvalidField, UnknownModel
from penstock.domain.ids import Alias, VersionId
from penstock.domain.serving.agreement import Reported, between
from penstock.domain.serving.auto import Auto, PastAuto

HOUR_S = 3600.0
DAY_HOURS, MOST_HOURS = 24.0, 168.0
router = APIRouter(prefix="/autos", tags=["models"], route_class=ActRoute)


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoList:
    """The auto aliases in force."""

    autos: tuple[Auto, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoHistory:
    """The present and past settings of an auto alias, newest first."""

    alias: Alias
    history: tuple[PastAuto, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairReported:
    """Agreement of one rule's model with another rule's, from compared requests.

    A ratio is null if nothing was counted for it; ``_between`` is its 95 % interval.
    """

    alias: Alias
    rule: str
    version: VersionId
    other: str
    other_version: VersionId
    answered: int
    """Requests that the rule answered."""
    pairs: int
    """Requests that both models were asked."""
    failed: int
    """Pairs that the other model refused or failed at."""
    untold: int
    """Pairs that can't be compared."""
    forms: int
    """Pairs whose answers are JSON that was asked for, or labels."""
    forms_agreed: int
    texts: int
    """Pairs whose answers both models scored token by token."""
    texts_agreed: int
    alike: int
    """Sum over these: the percent of tokens that both models find likeliest."""
    paid: int
    other_paid: int
    tenants: int
    """Tenants with a pair."""
    most: float | None
    """The largest tenant's part of the pairs."""
    forms_ratio: float | None
    forms_between: tuple[float, float] | None
    texts_ratio: float | None
    texts_between: tuple[float, float] | None
    alike_ratio: float | None
    price_ratio: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoReport:
    """The comparisons of an auto alias's rules in the last ``hours``."""

    auto: Auto
    hours: float
    pairs: tuple[PairReported, ...]


@router.get("")
async def autos(control: Controlled, _: Operator) -> AutoList:
    """List the auto aliases in force."""
    return AutoList(autos=await control.registry.store.autos())


@router.get("/{alias}")
async def auto(control: Controlled, _: Operator, alias: Alias) -> AutoHistory:
    """Show an auto alias's settings, newest first."""
    history = await control.registry.store.auto_history(alias, SHOWN)
    if not history:
        raise UnknownModel(f"there is no auto alias {alias[:80]}")
    return AutoHistory(alias=alias, history=history)


@router.get("/{alias}/report")
async def report(control: Controlled, _: Overseer, alias: Alias, hours: float = DAY_HOURS) -> AutoReport:
    """Report how often the model of one rule would have answered as another rule's, in the last hours."""
    if not 0.0 < hours <= MOST_HOURS:
        raise InvalidField(f"above 0 hours, and {MOST_HOURS:g} at most", param="hours")
    auto = next((one for one in await control.registry.store.autos() if one.alias == alias), None)
    if auto is None:
        raise UnknownModel(f"there is no auto alias {alias[:80]}")
    found = await control.agreements(alias, control.clock.now(), hours * HOUR_S)
    return AutoReport(auto=auto, hours=hours, pairs=tuple(_shown(one) for one in found))


@router.put("/{alias}")
async def put(control: Controlled, caller: Operator, alias: Alias, body: Sent[NewRules]) -> Auto:
    """Set the rules of an auto alias."""
    act = control.act(caller, "auto.put", alias)
    return await control.registry.put_auto(Auto(alias=alias, rules=body.rules), act)


@router.delete("/{alias}")
async def remove(control: Controlled, caller: Operator, alias: Alias) -> AliasRemoved:
    """Remove an auto alias."""
    await control.registry.remove_auto(alias, control.act(caller, "auto.remove", alias))
    return AliasRemoved(alias=alias)


def _shown(one: Reported) -> PairReported:
    counts = one.counts
    return PairReported(
        **one.pair._asdict(),
        **counts._asdict(),
        tenants=one.tenants,
        most=one.most,
        forms_ratio=one.forms_ratio,
        forms_between=between(counts.forms_agreed, counts.forms) if counts.forms else None,
        texts_ratio=one.texts_ratio,
        texts_between=between(counts.texts_agreed, counts.texts) if counts.texts else None,
        alike_ratio=one.alike_ratio,
        price_ratio=one.price_ratio,
    )
