"""Operators: the numbers of workers that the autoscaler decided, and why."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query

from penstock.control.api.acts import ActRoute
from penstock.control.api.bodies import NewOverride
from penstock.control.api.deps import Controlled, Operator
from penstock.control.api.wire import Sent
from penstock.domain.errors import InvalidField
from penstock.domain.fleet.scaling import Override, ScaleRecord, Target
from penstock.domain.fleet.versions import Deployment
from penstock.domain.ids import VersionId

OVERRIDE_LEAST_S, OVERRIDE_MOST_S = 60.0, 7 * 86_400.0
"""Seconds: a shorter override ends before a worker has started; what holds for longer is a bound."""
Limit = Annotated[int, Query(ge=1, le=1000)]
router = APIRouter(tags=["scale"], route_class=ActRoute)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledShown:
    """A version's last record, and what the fleet is to bring about."""

    record: ScaleRecord
    target: Target


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleShown:
    """Scaling at a glance; ``is_on`` is false if no scale file is named."""

    is_on: bool
    leader: bool
    gateways: int
    silent: tuple[str, ...]
    """Gateways that reported and are silent: nothing scales in meanwhile."""
    gateways_wanted: int | None
    """The number of gateway processes to run; null if it is not scaled, or not known yet."""
    versions: tuple[ScaledShown, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordList:
    """Changes of numbers and overrides, newest first: a thousand of each version are kept."""

    records: tuple[ScaleRecord, ...]


@router.get("/scale")
async def scale(control: Controlled, _: Operator) -> ScaleShown:
    """Show each scaled version's number, wish and signals, as the last tick decided them."""
    scaler, demand = control.scaler, control.runtime.demand.demand()
    versions = sorted(scaler.now.keys() & scaler.targets.keys())
    return ScaleShown(
        is_on=scaler.is_on,
        leader=control.runtime.leads,
        gateways=demand.gateways,
        silent=demand.missing,
        gateways_wanted=scaler.gateways.workers if scaler.gateways is not None else None,
        versions=tuple(ScaledShown(record=scaler.now[one], target=scaler.targets[one]) for one in versions),
    )


@router.get("/scale/history")
async def history(control: Controlled, _: Operator, version: str = "", limit: Limit = 50) -> RecordList:
    """List changes of numbers and overrides, newest first, of earlier leaders too."""
    return RecordList(records=await control.scaler.history(version, limit))


@router.put("/scale/{version}/override")
async def override(control: Controlled, caller: Operator, version: VersionId, body: Sent[NewOverride]) -> Deployment:
    """Set a scaled version's number of workers until a time: demand, the clock and a new leader do not change it."""
    if not OVERRIDE_LEAST_S <= body.for_s <= OVERRIDE_MOST_S:
        says = "an override holds from a minute to seven days; for longer, change the scale file"
        raise InvalidField(says, param="for_s")
    if not body.reason:
        raise InvalidField("an override has a reason, for the others", param="reason")
    control.scaler.check(version, body.workers)
    act = control.act(caller, "scale.override", version)
    asked = Override(workers=body.workers, until=act.at + body.for_s, who=act.who, reason=body.reason)
    return await control.registry.put_override(version, asked, act)


@router.delete("/scale/{version}/override")
async def clear(control: Controlled, caller: Operator, version: VersionId) -> Deployment:
    """Let demand decide a version's number again before its override ends."""
    return await control.registry.put_override(version, None, control.act(caller, "scale.override_clear", version))
