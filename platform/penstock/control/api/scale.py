"""Operators: the numbers of workers that the autoscaler decided, and why."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query

from penstock.control.api.acts import ActRoute
from penstock.control.api.deps import Controlled, Operator
from penstock.domain.fleet.scaling import ScaleRecord, Target

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
    """Changes of numbers since this controller leads, newest first."""

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
    """List changes of numbers since this controller leads, newest first."""
    found = [one for one in reversed(control.scaler.history) if version in ("", one.version)]
    return RecordList(records=tuple(found[:limit]))
