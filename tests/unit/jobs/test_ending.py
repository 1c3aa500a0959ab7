"""Ends of attempts on their way into the store."""

import asyncio
from collections.abc import Sequence
from unittest.mock import ANY

from penstock.domain.jobs.ids import JobId, RunnerId
from penstock.domain.jobs.job import End, JobState, PutBack, Reason
from penstock.jobs.asking import Answered
from penstock.jobs.attempts import Next
from penstock.jobs.ending import Done, Endings
from tests.support.clock import ManualClock
from tests.support.jobs.stores import FREE, new, quota
from tests.twins.jobs import MemoryJobs


class _Slow(MemoryJobs):
    async def finish(self, ends: Sequence[End]) -> frozenset[JobId]:
        await asyncio.sleep(0.01)
        return await super().finish(ends)

    async def put_back(self, ends: Sequence[PutBack]) -> dict[JobId, JobState]:
        await asyncio.sleep(0.01)
        return dict(await super().put_back(ends))


async def test_a_drain_beside_the_loop_stores_each_end_once() -> None:
    """An ordinary shutdown fences nothing; an end that is really late is told."""
    store = _Slow()
    ended, fenced = list[Done](), list[Done]()
    endings = Endings(store=store, payloads=ANY, clock=ManualClock(), ended=ended.append, fenced=fenced.append)
    me = RunnerId(1)
    store.runners.add(me)
    for number in range(3):
        await store.submit(new(f"job_{number}"), FREE)
    back = Next(state=JobState.QUEUED, reason=Reason.CAPACITY, counts=False)
    done = [
        Done(job=job, answered=Answered(), next=back, row=None, at=2.0) for job in await store.claim(me, quota(3), 1.0)
    ]
    for one in done:
        endings.add(one)
    loop = asyncio.create_task(endings.run(lambda: me))
    await asyncio.sleep(0.025)
    await endings.flush_all(me)
    endings.add(done[0])
    await endings.flush_all(me)
    loop.cancel()
    assert ([one.job.name for one in ended], [one.job.name for one in fenced]) == (
        ["job_0", "job_1", "job_2"],
        ["job_0"],
    )
