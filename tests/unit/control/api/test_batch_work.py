"""The operators' pause of all batch work."""

from dataclasses import replace

from penstock.domain.fleet.worker import WorkerEnd
from penstock.domain.jobs.job import PAUSE_ALL, EnqueueLimits
from penstock.domain.tenancy.tenant import Role
from tests.support.controllers.in_memory import Room
from tests.support.jobs.stores import new
from tests.support.samples.control_plane import report

WORK = "/admin/v1/batch-work"


async def test_a_pause_stands_in_the_audit_log(room: Room) -> None:
    """Pausing and resuming are acts of an operator, and shown to auditors."""
    await room.jobs.submit(new("job_1"), EnqueueLimits())
    async with room.client(await room.key(Role.ADMIN)) as operator:
        assert (await operator.put(f"{WORK}/pause")).json()["is_paused"] is True
        assert PAUSE_ALL in await room.jobs.paused()
        for path in (WORK, f"{WORK}/pause", "/admin/v1/status"):
            told = (await operator.get(path)).json()
            assert told.get("batch_work", told) == {
                "is_paused": True,
                "requests": 1,
                "batches": 0,
                "outside": [],
            }
        assert (await operator.delete(f"{WORK}/pause")).json()["is_paused"] is False
    async with room.client(await room.key(Role.AUDITOR)) as auditor:
        assert (await auditor.get(WORK)).json()["is_paused"] is False
        assert (await auditor.put(f"{WORK}/pause")).status_code == 403
    acts = [act.what for act in await room.audit.newest(10)]
    assert [what for what in acts if what.startswith("batch_work")] == ["batch_work.resume", "batch_work.pause"]


async def test_a_plan_whose_pools_no_worker_is_in_is_told(room: Room) -> None:
    """By tenant and pools, until a worker of one reports itself; one that has ended is none."""
    async with room.client(await room.key(Role.ADMIN)) as operator:
        for tenant, pools in (("nights", "spot,nights"), ("spots", "spot")):
            await operator.post("/admin/v1/tenants", json={"id": tenant, "plan": {"batch_pools": pools}})

        async def outside() -> list[str]:
            return [one["tenant"] for one in (await operator.get(WORK)).json()["outside"]]

        assert (await operator.get(WORK)).json()["outside"] == [
            {"tenant": "nights", "pools": ["nights", "spot"]},
            {"tenant": "spots", "pools": ["spot"]},
        ]
        ended = replace(report("w1"), pools=("spot",), end=WorkerEnd.NOTICE)
        room.heartbeats.take(ended)
        assert await outside() == ["nights", "spots"]
        room.heartbeats.take(replace(report("w2"), pools=("on-demand", "nights")))
        assert await outside() == ["spots"]


async def test_a_tenants_admin_pauses_nobody(room: Room) -> None:
    """All batch work is the platform's: a tenant pauses its own batches."""
    async with room.client(await room.key(Role.ADMIN, tenant="acme")) as admin:
        assert (await admin.put(f"{WORK}/pause")).status_code == 403
        assert (await admin.get(WORK)).status_code == 403
