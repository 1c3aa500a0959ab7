"""Operators: jobs that failed at each attempt, of all tenants, and their replay by filter."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import APIRouter, Query

from penstock.control.api.acts import ActRoute
from penstock.control.api.bodies import Strict
from penstock.control.api.deps import Controlled, Operator, Overseer
from penstock.control.api.wire import Sent
from penstock.domain.ids import Alias, TenantId
from penstock.domain.jobs.job import EnqueueLimits, Job, JobFilter, JobState, Reason

router = APIRouter(tags=["batch work"], route_class=ActRoute)
DEAD = "/batch-work/dead"
Limit = Annotated[int, Query(ge=1, le=1000)]


class DeadFilter(Strict):
    """The dead letters to replay; empty fields match all."""

    tenant: TenantId = TenantId("")
    model: Alias = Alias("")
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    id: str
    tenant: str
    model: str
    version: str
    error: str
    attempt: int
    request: str
    created_at: float
    ended_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetters:
    jobs: tuple[DeadLetter, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The number of jobs queued again: at most a thousand at once."""

    jobs: int


@router.get(DEAD)
async def dead(
    control: Controlled, _: Overseer, tenant: str = "", model: str = "", error: str = "", limit: Limit = 50
) -> DeadLetters:
    """List single jobs that failed at each attempt, newest first; never their requests or answers."""
    which = _which(Alias(model), error)
    found = await control.jobs.page(TenantId(tenant) or None, which, control.clock.now(), limit=limit)
    return DeadLetters(jobs=_shown(found))


@router.post(f"{DEAD}/replay")
async def replay(control: Controlled, caller: Operator, asked: Sent[DeadFilter]) -> Replay:
    """Queue dead letters again, oldest first, with all of their attempts and time; their tenants' limits do not
    hold them up.
    """
    which, tenant = _which(asked.model, asked.error), asked.tenant or None
    number = await control.jobs.replay_all(tenant, which, control.clock.now(), EnqueueLimits())
    act = control.act(caller, "jobs.replay", f"{number} dead letters", tenant=asked.tenant)
    await control.audit.note(replace(act, detail=_filter(asked)))
    return Replay(jobs=number)


def _filter(asked: DeadFilter) -> str:
    return ", ".join(f"{name} {value}" for name, value in asked.model_dump().items() if value)


def _which(model: Alias, error: str) -> JobFilter:
    return JobFilter(state=JobState.FAILED, reason=Reason.DEAD_LETTER, model=model, error=error)


def _shown(found: Sequence[Job]) -> tuple[DeadLetter, ...]:
    return tuple(
        DeadLetter(
            id=job.name,
            tenant=job.tenant,
            model=job.model,
            version=job.version,
            error=job.error,
            attempt=job.attempt,
            request=job.request,
            created_at=job.created_at,
            ended_at=job.ended_at,
        )
        for job in found
    )
