"""Operators: pause all jobs and batches of all tenants, and resume them."""

from dataclasses import dataclass

from fastapi import APIRouter

from penstock.control.api.acts import ActRoute
from penstock.control.api.deps import Controlled, Operator, Overseer
from penstock.domain.jobs.job import PAUSE_ALL

router = APIRouter(tags=["batch work"], route_class=ActRoute)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchWorkShown:
    """Whether jobs and batches run; while they are paused they hold no slot, and their deadlines stay."""

    is_paused: bool


@router.get("/batch-work")
async def shown(control: Controlled, _: Overseer) -> BatchWorkShown:
    """Tell whether all batch work is paused; pauses of single batches are their tenants'."""
    return BatchWorkShown(is_paused=PAUSE_ALL in await control.jobs.paused())


@router.put("/batch-work/pause")
async def pause(control: Controlled, caller: Operator) -> BatchWorkShown:
    """Start no job and no line of a batch until resumed; what runs is stopped, and queued again."""
    act = control.act(caller, "batch_work.pause")
    await control.jobs.pause(PAUSE_ALL, act.at)
    await control.audit.note(act)
    return BatchWorkShown(is_paused=True)


@router.delete("/batch-work/pause")
async def resume(control: Controlled, caller: Operator) -> BatchWorkShown:
    """Let jobs and batches run again."""
    await control.jobs.resume(PAUSE_ALL)
    await control.audit.note(control.act(caller, "batch_work.resume"))
    return BatchWorkShown(is_paused=False)
