"""What deferred work needs of its stores. Times are Unix seconds of the caller's clock, if not said otherwise."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from penstock.domain.ids import KeyId, TenantId
from penstock.domain.jobs.ids import JobId, JobName, RunnerId
from penstock.domain.jobs.job import (
    NO_KEY,
    Attempt,
    ClaimQuota,
    End,
    EnqueueLimits,
    Job,
    JobFilter,
    JobState,
    NewJob,
    PutBack,
    QueueShape,
    Stop,
    Submitted,
    TakenOver,
)


class JobIntake(Protocol):
    """Jobs as their tenants see them: another tenant's job does not exist."""

    async def submit(self, job: NewJob, limits: EnqueueLimits) -> Submitted:
        """Store a job; under an idempotency key that was used before, return that job.

        ``IdempotencyMismatch`` if its fingerprint differs; ``OverEnqueued``, or ``ExceedsLimit`` if it can never fit.
        """
        ...

    async def keyed(self, tenant: TenantId, idempotency: str) -> Job | None: ...

    async def kept(self, tenant: TenantId, now: float) -> int:
        """Return the bytes of all that a tenant keeps, rows included."""
        ...

    async def find(self, tenant: TenantId, name: JobName, now: float) -> Job | None: ...

    async def page(
        self,
        tenant: TenantId | None,
        which: JobFilter,
        now: float,
        *,
        limit: int,
        after: JobName | None = None,
        newest_first: bool = True,
    ) -> tuple[Job, ...]:
        """Return jobs beyond the one named ``after``; of all tenants, newest first, without a tenant."""
        ...

    async def attempts(self, job: JobId) -> tuple[Attempt, ...]: ...

    async def cancel(self, tenant: TenantId, name: JobName, now: float) -> Job | None:
        """End a queued job, ask a running one's runner to stop it; a job that has ended stays as it is."""
        ...

    async def replay(
        self, tenant: TenantId, name: JobName, now: float, limits: EnqueueLimits, by: KeyId = NO_KEY
    ) -> Job | None:
        """Queue a failed or cancelled single job again, with all of its attempts and time, under the key ``by``
        (``NO_KEY``: its own); ``Conflict`` for any other.
        """
        ...

    async def replay_all(
        self, tenant: TenantId | None, which: JobFilter, now: float, limits: EnqueueLimits, by: KeyId = NO_KEY
    ) -> int:
        """Replay at most ``MOST_REPLAYED`` failed jobs, oldest first; return their number."""
        ...

    async def delete(self, tenant: TenantId, name: JobName, now: float) -> Job | None:
        """Expire a job that has ended, so that it is not found; ``Conflict`` while it is open."""
        ...


class JobStore(JobIntake, Protocol):
    async def claim(self, runner: RunnerId, quotas: Sequence[ClaimQuota], now: float) -> tuple[Job, ...]:
        """Hand jobs to a runner, each counted as an attempt: fair between tenants by weight, in cost tokens; of one
        tenant the nearest deadline first.

        A runner that was taken for dead gets none.
        """
        ...

    async def finish(self, ends: Sequence[End]) -> frozenset[JobId]:
        """End jobs; return those that were still held under their epoch. All others are fenced: nothing changed."""
        ...

    async def put_back(self, ends: Sequence[PutBack]) -> Mapping[JobId, JobState]:
        """Return the state of each job that was still held."""
        ...

    async def asked_to_stop(self, runner: RunnerId, now: float) -> tuple[Stop, ...]: ...

    async def pause(self, scope: str, now: float) -> None:
        """Stop claims of all jobs (``PAUSE_ALL``) or of one batch (``pause_of``)."""
        ...

    async def resume(self, scope: str) -> None: ...

    async def paused(self) -> frozenset[str]: ...

    async def tidy(self, now: float) -> int:
        """End what is past its deadline and what revoked keys submitted; mend lanes; return the number of jobs ended.

        Running jobs end by force 20 s after the wish to cancel them and 10 s after their deadline.

        Each runner calls it about once a second.
        """
        ...

    async def shape(self) -> QueueShape: ...

    async def expired(self, now: float, limit: int) -> tuple[Job, ...]:
        """Return single jobs that have expired: their payloads go first, then ``forget`` deletes their rows."""
        ...

    async def forget(self, jobs: Collection[JobId]) -> None: ...


class RunnerLife(Protocol):
    """This process as a runner: a lock on a connection of its own, and a heartbeat."""

    async def confirm(self) -> RunnerId:
        """Return this life's id, confirmed; another id than before if it was taken for dead.

        ``StoreUnavailable`` while the lock can't be confirmed: then nothing may be claimed.
        """
        ...

    async def resign(self) -> None: ...


class RunnerStore(Protocol):
    async def take_over(self, me: RunnerId, now: float) -> TakenOver:
        """Queue the jobs of dead runners again, each with its attempt counted, and remove those runners.

        Other rows that note a runner are free if that runner is not there any more.
        """
        ...
