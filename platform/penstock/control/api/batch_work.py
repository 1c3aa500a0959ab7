"""Operators: pause all jobs and batches of all tenants, and resume them."""

from dataclasses import dataclass

from fastapi import APIRouter

from penstock.control.api.acts import ActRoute
from penstock.control.api.deps import Control, Controlled, Operator, Overseer
from penstock.domain.ids import TenantId
from penstock.domain.jobs.job import PAUSE_ALL

router = APIRouter(tags=["batch work"], route_class=ActRoute)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsidePools:
    tenant: TenantId
    pools: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchWorkShown:
    """Whether jobs and batches run; while they are paused they hold no slot, and their deadlines stay."""

    is_paused: bool
    requests: int
    """Jobs and lines of batches that have not ended."""
    batches: int
    outside: tuple[OutsidePools, ...]
    """Tenants whose batch work waits for a worker in their plan's pools: none is in any."""


async def work_of(control: Control) -> BatchWorkShown:
    unended = await control.jobs.unended()
    is_paused = PAUSE_ALL in await control.jobs.paused()
    reports = [one.report for one in await control.heartbeats.seen()]
    there = {pool for report in reports if report.end is None for pool in report.pools}
    outside = tuple(
        OutsidePools(tenant=tenant.id, pools=tuple(sorted(tenant.plan.pools)))
        for tenant in await control.tenancy.tenants()
        if tenant.plan.pools and tenant.plan.pools.isdisjoint(there)
    )
    return BatchWorkShown(is_paused=is_paused, requests=unended.requests, batches=unended.batches, outside=outside)


@router.get("/batch-work")
@router.get("/batch-work/pause")
async def shown(control: Controlled, _: Overseer) -> BatchWorkShown:
    """Tell how much batch work there is, and whether all is paused; pauses of single batches are their tenants'."""
    return await work_of(control)


@router.put("/batch-work/pause")
async def pause(control: Controlled, caller: Operator) -> BatchWorkShown:
    """Start no job and no line of a batch until resumed; what runs is stopped, and queued again."""
    act = control.act(caller, "batch_work.pause")
    await control.jobs.pause(PAUSE_ALL, act.at)
    await control.audit.note(act)
    return await work_of(control)


@router.delete("/batch-work/pause")
async def resume(control: Controlled, caller: Operator) -> BatchWorkShown:
    """Let jobs and batches run again."""
    await control.jobs.resume(PAUSE_ALL)
    await control.audit.note(control.act(caller, "batch_work.resume"))
    return await work_of(control)
