"""Operators: rollouts, which move an alias from one version to another."""

from dataclasses import dataclass, field, fields
from secrets import token_hex
from typing import Any

from fastapi import APIRouter

from penstock.control.api.acts import ActRoute
from penstock.control.api.aliases import check_tenants
from penstock.control.api.bodies import NewRollout, RolloutMove
from penstock.control.api.deps import Control, Controlled, Operator, Overseer
from penstock.control.api.wire import Sent
from penstock.control.rollout.rollouts import Consent, Move
from penstock.domain.errors import InvalidField, UnknownRoute
from penstock.domain.ids import Alias, TenantId, VersionId
from penstock.domain.rollout.judgement import Judgement
from penstock.domain.rollout.rollout import Change, Rollout, Stored
from penstock.judging.plan import Planned

MOST_HOURS = 168.0
_ID_BYTES = 5
router = APIRouter(tags=["rollouts"], route_class=ActRoute)


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutShown(Rollout):
    """A rollout, the candidate's weight now, and the number of its last change."""

    weight: int = field()
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutStarted(RolloutShown):
    """A rollout that began, with its first change."""

    history: tuple[Change, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutWhole(RolloutStarted):
    """A rollout with every change, and the present judgement on its candidate; null if it is over or not yet judged."""

    judgement: Judgement | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutList:
    """Rollouts, newest first."""

    rollouts: tuple[RolloutShown, ...]


@router.post("/rollouts", status_code=201)
async def start(control: Controlled, caller: Operator, body: Sent[NewRollout]) -> RolloutStarted:
    """Begin a rollout beside the version that has all of the alias now."""
    act = control.act(caller, "rollout.start")
    await _check_tenants(control, body)
    consent = Consent(reason=body.reason, dearer=body.accept_dearer, spent=body.override_budget)
    stored = await control.rollouts.start(_asked(body), consent, act)
    return RolloutStarted(**_shown(stored), history=await control.rollouts.store.history(stored.rollout.id))


@router.get("/rollouts")
async def listed(control: Controlled, _: Overseer, alias: str = "") -> RolloutList:
    """List the newest rollouts, newest first; with ``alias`` those of one alias."""
    found = await control.rollouts.listed(Alias(alias) if alias else None)
    return RolloutList(rollouts=tuple(RolloutShown(**_shown(one)) for one in found))


@router.post("/rollout-plans")
async def plan(control: Controlled, _: Operator, body: Sent[NewRollout], hours: float = 1.0) -> Planned:
    """Plan a rollout's stages with the traffic of the last hours; nothing is started."""
    if not 0.0 < hours <= MOST_HOURS:
        raise InvalidField(f"the traffic of above 0 hours, and of {MOST_HOURS:g} at most", param="hours")
    await _check_tenants(control, body)
    return await control.rollouts.plan(_asked(body), control.clock.now(), hours)


@router.get("/rollouts/{rollout}")
async def one(control: Controlled, _: Overseer, rollout: str) -> RolloutWhole:
    """Show a rollout with the present judgement on its candidate, and all its changes."""
    stored = await control.rollouts.one(rollout)
    live = not stored.rollout.state.is_over
    judgement = control.comparisons.judgement(stored.rollout) if live else None
    history = await control.rollouts.store.history(rollout)
    return RolloutWhole(**_shown(stored), judgement=judgement, history=history)


@router.post("/rollouts/{rollout}/{move}")
async def move(control: Controlled, caller: Operator, rollout: str, move: str, body: Sent[RolloutMove]) -> RolloutShown:
    """Hold, resume, promote or abort a rollout."""
    act = control.act(caller, f"rollout.{move}")
    try:
        word = Move(move)
    except ValueError as error:
        raise UnknownRoute(f"a rollout knows {', '.join(Move)}") from error
    consent = Consent(reason=body.reason, spent=body.override_budget, stage=body.stage)
    stored = await control.rollouts.move(rollout, word, consent, act)
    return RolloutShown(**_shown(stored))


async def _check_tenants(control: Control, body: NewRollout) -> None:
    """Raise ``InvalidField`` for a tenant in the blast radius that this alias does not serve."""
    named = {"blast.out": body.blast.out, "blast.first": body.blast.first}
    if not any(named.values()):
        return
    ring, now = await control.ring(), control.clock.now()
    for param, tenants in named.items():
        check_tenants(body.alias, map(TenantId, tenants), ring, now, param=param)


def _shown(stored: Stored) -> dict[str, Any]:
    rollout = stored.rollout
    return {one.name: getattr(rollout, one.name) for one in fields(rollout)} | {
        "weight": rollout.weight,
        "number": stored.number,
    }


def _asked(body: NewRollout) -> Rollout:
    return Rollout(
        id=f"ro-{token_hex(_ID_BYTES)}",
        alias=body.alias,
        incumbent=VersionId(""),
        candidate=body.candidate,
        kind=body.kind,
        stages=body.stages,
        blast=body.blast,
        shadow=body.shadow,
        patience_s=body.patience_s,
        guard=body.guard,
    )
