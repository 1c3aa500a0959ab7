"""Random histories of a store of jobs: whatever is done in whatever order, no job is lost, doubled, stranded or run
when it may not be.
"""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from penstock.connectors.postgres.database import Database
from penstock.domain.ids import Alias, KeyId, TenantId
from penstock.domain.jobs.ids import NO_BATCH, BatchId, JobId, JobName, RunnerId
from penstock.domain.jobs.job import End, EnqueueLimits, Job, JobState, PutBack, Reason, pause_of
from tests.support.jobs.stores import MemoryWorld, PostgresWorld, World, new, quota
from tests.support.patience import patient

TENANTS = [TenantId(name) for name in ("a", "b", "c")]
BATCHES = [BatchId("b1"), BatchId("b2")]
KEYS = [KeyId("k1"), KeyId("k2")]
FREE = EnqueueLimits()


@dataclass(slots=True)
class Seen:
    """What a history knows of a job by what it was told."""

    tenant: TenantId
    key: KeyId
    batch: BatchId
    cost: int
    deadline_at: float
    ready_at: float
    state: JobState = JobState.QUEUED
    runner: RunnerId | None = None
    epoch: int = 0
    attempt: int = 0


class Histories(RuleBasedStateMachine):
    """Each rule is something that a tenant, a runner or a failure does."""

    world: World
    loop: asyncio.AbstractEventLoop

    def __init__(self) -> None:
        super().__init__()
        self.now, self.number = 0.0, 0
        self.jobs: dict[JobName, Seen] = {}
        self.names: dict[JobId, JobName] = {}
        self.held: list[Job] = []
        self.paused: set[BatchId] = set()
        self.revoked: set[KeyId] = set()
        if isinstance(self.world, PostgresWorld):
            self.do(self.world.empty())
        else:
            type(self).world = MemoryWorld()
        self.runners = [self.do(self.world.runner()) for _ in range(2)]

    def do(self, act: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401  what the act gives
        return self.loop.run_until_complete(act)

    @rule(
        tenant=st.sampled_from(TENANTS),
        key=st.sampled_from(KEYS),
        batch=st.sampled_from([NO_BATCH, *BATCHES]),
        cost=st.integers(1, 500),
        waits=st.sampled_from([0, 0, 0, 5]),
        lasts=st.integers(3, 60),
    )
    def submit(self, tenant: TenantId, key: KeyId, batch: BatchId, cost: int, waits: int, lasts: int) -> None:
        self.number += 1
        job = new(
            f"j{self.number}", tenant=tenant, key=key, batch=batch, line=self.number, cost_tokens=cost,
            created_at=self.now, deadline_at=self.now + lasts, not_before=self.now + waits if waits else 0.0,
            max_attempts=2,
        )  # fmt: skip
        self.do(self.world.queue([job], FREE))
        ready_at = min(self.now + waits, job.deadline_at)
        self.jobs[job.name] = Seen(tenant, key, batch, cost, job.deadline_at, ready_at)

    @rule(runner=st.integers(0, 1), number=st.integers(1, 6))
    def claim(self, runner: int, number: int) -> None:
        """What is handed out may run, is nobody's, and is each tenant's nearest; if there is any, some is."""
        me = self.runners[runner]
        may = {name for name, job in self.jobs.items() if self.may_run(job)}
        claimed = self.do(self.world.store.claim(me, quota(number), self.now))
        assert {job.name for job in claimed} <= may
        assert len(claimed) == min(number, len(may))
        for tenant in TENANTS:
            mine = sorted(self.jobs[name].deadline_at for name in may if self.jobs[name].tenant == tenant)
            got = sorted(job.deadline_at for job in claimed if job.tenant == tenant)
            assert got == mine[: len(got)]
        for job in claimed:
            seen = self.jobs[job.name]
            assert (job.epoch, job.attempt) == (seen.epoch + 1, seen.attempt + 1)
            seen.state, seen.runner, seen.epoch, seen.attempt = JobState.RUNNING, me, job.epoch, job.attempt
            self.names[job.id] = job.name
        self.held += claimed

    def may_run(self, job: Seen) -> bool:
        is_ready = job.state is JobState.QUEUED and job.ready_at <= self.now < job.deadline_at
        return is_ready and job.batch not in self.paused and job.key not in self.revoked

    @rule(data=st.data(), state=st.sampled_from([JobState.SUCCEEDED, JobState.FAILED]), used=st.integers(0, 100))
    def finish(self, data: st.DataObject, state: JobState, used: int) -> None:
        """An end counts once, and only under the epoch of the present claim."""
        if not self.held:
            return
        job = data.draw(st.sampled_from(self.held))
        end = End(id=job.id, epoch=job.epoch, state=state, at=self.now, output_tokens=used)
        told = self.do(self.world.store.finish([end]))
        seen = self.jobs[job.name]
        is_held = seen.state is JobState.RUNNING and seen.epoch == job.epoch
        assert told == ({job.id} if is_held else frozenset())
        if is_held:
            seen.state = state

    @rule(data=st.data(), may_have_run=st.booleans(), later=st.sampled_from([0, 4]))
    def put_back(self, data: st.DataObject, may_have_run: bool, later: int) -> None:
        if not self.held:
            return
        job = data.draw(st.sampled_from(self.held))
        end = PutBack(
            id=job.id, epoch=job.epoch, at=self.now, not_before=self.now + later, reason=Reason.BACKOFF,
            may_have_run=may_have_run,
        )  # fmt: skip
        told = self.do(self.world.store.put_back([end]))
        seen = self.jobs[job.name]
        if seen.state is not JobState.RUNNING or seen.epoch != job.epoch:
            assert told == {}
            return
        seen.attempt -= not may_have_run
        seen.state = JobState.FAILED if may_have_run and seen.attempt >= 2 else JobState.QUEUED
        seen.ready_at = min(self.now + later, seen.deadline_at)
        assert told == {job.id: seen.state}

    @rule(runner=st.integers(0, 1))
    def lose(self, runner: int) -> None:
        """A runner dies; what it held is queued again or dead, and its ends come too late from now on."""
        dead = self.runners[runner]
        self.do(self.world.lose(dead, self.now))
        for job in self.jobs.values():
            if job.state is JobState.RUNNING and job.runner == dead:
                job.state = JobState.FAILED if job.attempt >= 2 else JobState.QUEUED
                job.ready_at = self.now
        self.runners[runner] = self.do(self.world.runner())

    @rule(seconds=st.integers(1, 12))
    def later(self, seconds: int) -> None:
        self.now += seconds

    @rule(batch=st.sampled_from(BATCHES))
    def pause(self, batch: BatchId) -> None:
        self.do(self.world.store.pause(pause_of(batch), self.now))
        self.paused.add(batch)

    @rule(batch=st.sampled_from(BATCHES))
    def resume(self, batch: BatchId) -> None:
        self.do(self.world.store.resume(pause_of(batch)))
        self.paused.discard(batch)

    @rule()
    def revoke(self) -> None:
        self.do(self.world.revoke(KEYS[1]))
        self.revoked.add(KEYS[1])

    @rule(data=st.data())
    def cancel_queued(self, data: st.DataObject) -> None:
        queued = [name for name, job in self.jobs.items() if job.state is JobState.QUEUED]
        if queued:
            name = data.draw(st.sampled_from(queued))
            self.do(self.world.store.cancel(self.jobs[name].tenant, name, self.now))
            self.jobs[name].state = JobState.CANCELLED

    @rule()
    def tidy(self) -> None:
        """What may begin no more ends: by its key, or by its deadline; running jobs long after it."""
        self.do(self.world.store.tidy(self.now))
        for job in self.jobs.values():
            if job.state is JobState.QUEUED and job.key in self.revoked:
                job.state = JobState.CANCELLED
            elif job.state is JobState.QUEUED and job.deadline_at <= self.now:
                job.state = JobState.FAILED
            elif job.state is JobState.RUNNING and job.deadline_at < self.now - 10:
                job.state, job.epoch = JobState.FAILED, job.epoch + 1

    @invariant()
    def reservations_are_the_sum_over_open_jobs(self) -> None:
        for tenant in TENANTS:
            open_jobs = [job for job in self.jobs.values() if job.tenant == tenant and job.state.is_open]
            reserved = self.do(self.world.enqueued(tenant)).get(Alias("chat"))
            told = (reserved.tokens, reserved.jobs) if reserved else (0, 0)
            assert told == (sum(job.cost for job in open_jobs), len(open_jobs))
        if isinstance(self.world, PostgresWorld):
            assert self.do(self.world.is_consistent())


def play(world: World, loop: asyncio.AbstractEventLoop, examples: int) -> None:
    machine = type("Played", (Histories,), {"world": world, "loop": loop})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


def test_histories_in_memory() -> None:
    """The twin keeps the promises under every history that hypothesis finds."""
    loop = asyncio.new_event_loop()
    play(MemoryWorld(), loop, 60)
    loop.close()


@pytest.mark.integration
async def test_histories_in_postgres(database_dsn: str) -> None:
    """Postgres keeps the same ones."""
    await asyncio.to_thread(_play_in_postgres, database_dsn)


def _play_in_postgres(dsn: str) -> None:
    loop = asyncio.new_event_loop()
    database = Database(dsn, slower=patient(3.0))
    loop.run_until_complete(database.__aenter__())
    play(PostgresWorld(database), loop, 25)
    loop.run_until_complete(database.__aexit__(None, None, None))
    loop.close()
