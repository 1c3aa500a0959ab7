"""Dead letters of all tenants: shown to overseers, replayed by operators with a row in the audit log."""

from penstock.domain.ids import TenantId
from penstock.domain.jobs.ids import RunnerId
from penstock.domain.jobs.job import ClaimQuota, EnqueueLimits, JobState, NewJob, PutBack, Reason
from penstock.domain.tenancy.tenant import Role
from tests.support.controllers.in_memory import Room
from tests.support.jobs.stores import new

DEAD = "/admin/v1/batch-work/dead"


async def dies(room: Room, job: NewJob, error: str) -> None:
    """Let a job fail at its only attempt."""
    now = room.clock.now()
    await room.jobs.submit(job, EnqueueLimits())
    room.jobs.runners.add(RunnerId(1))
    (running,) = await room.jobs.claim(RunnerId(1), [ClaimQuota(version=job.version, jobs=1)], now)
    back = PutBack(
        id=running.id,
        epoch=running.epoch,
        at=now,
        not_before=now,
        reason=Reason.BACKOFF,
        may_have_run=True,
        error=error,
    )
    assert await room.jobs.put_back([back]) == {running.id: JobState.FAILED}


async def test_dead_letters_are_listed_and_replayed_by_filter(room: Room) -> None:
    """By tenant and error; the audit log tells of each replay and of whom it was."""
    now = room.clock.now()
    for number, (tenant, error) in enumerate((("acme", "engine_error"), ("beta", "engine_error"), ("beta", "lost"))):
        times = {"created_at": now, "deadline_at": now + 60.0}
        await dies(room, new(f"job_{number:012x}", tenant=TenantId(tenant), max_attempts=1, **times), error)
    async with room.client(await room.key(Role.ADMIN)) as operator:
        listed = (await operator.get(f"{DEAD}?tenant=beta&error=lost")).json()["jobs"]
        assert [(one["tenant"], one["error"], one["attempt"]) for one in listed] == [("beta", "lost", 1)]
        assert len((await operator.get(DEAD)).json()["jobs"]) == 3
        assert len((await operator.get(f"{DEAD}?limit=2")).json()["jobs"]) == 2
        assert (await operator.post(f"{DEAD}/replay", json={"tenant": "beta"})).json() == {"jobs": 2}
        assert [one["tenant"] for one in (await operator.get(DEAD)).json()["jobs"]] == ["acme"]
        assert (await operator.post(f"{DEAD}/replay", json={"colour": "x"})).status_code == 400
    (act,) = [one for one in await room.audit.newest(10) if one.what == "jobs.replay"]
    assert (act.target, act.detail, act.tenant) == ("2 dead letters", "tenant beta", "beta")


async def test_an_auditor_of_the_operators_looks_and_a_tenant_does_not(room: Room) -> None:
    """An overseer's key lists, and replays nothing; a tenant's admin does neither."""
    async with room.client(await room.key(Role.AUDITOR)) as auditor:
        assert (await auditor.get(DEAD)).json() == {"jobs": []}
        assert (await auditor.post(f"{DEAD}/replay", json={})).status_code == 403
    async with room.client(await room.key(Role.ADMIN, tenant="acme")) as admin:
        assert (await admin.get(DEAD)).status_code == 403
