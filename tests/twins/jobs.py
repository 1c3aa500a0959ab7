"""Deferred requests in memory. Twin of `connectors.postgres.jobs` and of `connectors.postgres.runners`."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count

from penstock.domain.errors import Conflict, IdempotencyMismatch
from penstock.domain.ids import Alias, KeyId, TenantId, VersionId
from penstock.domain.jobs.ids import NO_BATCH, JobId, JobName, RunnerId
from penstock.domain.jobs.job import (
    MOST_REPLAYED,
    NO_KEY,
    PAUSE_ALL,
    Attempt,
    ClaimQuota,
    End,
    EnqueueLimits,
    Job,
    JobFilter,
    JobKind,
    JobState,
    NewJob,
    PutBack,
    QueueShape,
    Reason,
    Stop,
    StopReason,
    Submitted,
    TakenOver,
    Unended,
    pause_of,
)
from tests.twins import job_rows
from tests.twins.job_rows import Enqueued, lost_end, next_state, overdue, stored

Flow = tuple[VersionId, TenantId]
FREE = EnqueueLimits()


class MemoryJobs:
    """Jobs by id; weights, revoked keys and runners are told by the test."""

    def __init__(self) -> None:
        self.weights: dict[TenantId, int] = {}
        self.revoked: set[KeyId] = set()
        self.runners: set[RunnerId] = set()
        self._jobs: dict[JobId, Job] = {}
        self._waiting: set[JobId] = set()
        self._keys: dict[tuple[TenantId, str], JobId] = {}
        self._attempts: dict[JobId, list[Attempt]] = {}
        self._served: dict[Flow, float] = {}
        self._active: set[Flow] = set()
        self._pauses: set[str] = set()
        self._ids = count(1)

    async def submit(self, job: NewJob, limits: EnqueueLimits) -> Submitted:
        known = self._keys.get((job.tenant, job.idempotency)) if job.idempotency else None
        if known is not None:
            if self._jobs[known].fingerprint != job.fingerprint:
                raise IdempotencyMismatch
            return Submitted(job=self._jobs[known], is_new=False)
        await self.queue([job], limits)
        (made,) = [one for one in self._jobs.values() if one.name == job.name]
        if job.idempotency:
            self._keys[job.tenant, job.idempotency] = made.id
        return Submitted(job=made, is_new=True)

    async def queue(self, jobs: Sequence[NewJob], limits: EnqueueLimits = FREE) -> None:
        lines = {(job.batch, job.line) for job in self._jobs.values() if job.batch}
        names = {job.name for job in self._jobs.values()}
        if any((job.batch, job.line) in lines or job.name in names for job in jobs):
            raise Conflict("this job exists already")
        if jobs:
            job_rows.check(self._of(jobs[0].tenant), jobs, limits)
        for job in jobs:
            self._open(stored(job, JobId(next(self._ids))), job.created_at)

    async def keyed(self, tenant: TenantId, idempotency: str) -> Job | None:
        found = self._keys.get((tenant, idempotency))
        return None if found is None else self._jobs[found]

    async def enqueued(self, tenant: TenantId) -> Mapping[Alias, Enqueued]:
        held: dict[Alias, Enqueued] = {}
        for job in self._open_ones():
            if job.tenant == tenant:
                was = held.get(job.model, Enqueued())
                held[job.model] = Enqueued(tokens=was.tokens + job.cost_tokens, jobs=was.jobs + 1)
        return held

    async def find(self, tenant: TenantId, name: JobName, now: float) -> Job | None:
        found = (job for job in self._jobs.values() if (job.tenant, job.name) == (tenant, name))
        return next((self._seen(job) for job in found if not 0 < job.expires_at <= now), None)

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
        found = [job for job in self._matching(tenant, which) if not 0 < job.expires_at <= now]
        ordered = list(reversed(found)) if newest_first or tenant is None else found
        if after is not None:
            (border,) = [job.id for job in self._jobs.values() if job.name == after]
            ordered = [job for job in ordered if (job.id < border) == newest_first and job.id != border]
        return tuple(map(self._seen, ordered[:limit]))

    async def attempts(self, job: JobId) -> tuple[Attempt, ...]:
        return tuple(self._attempts.get(job, ()))

    async def cancel(self, tenant: TenantId, name: JobName, now: float) -> Job | None:
        job = await self.find(tenant, name, now)
        if job is not None:
            self._cancel(self._jobs[job.id], now)
        return await self.find(tenant, name, now)

    async def replay(
        self, tenant: TenantId, name: JobName, now: float, limits: EnqueueLimits, by: KeyId = NO_KEY
    ) -> Job | None:
        job = await self.find(tenant, name, now)
        if job is None:
            return None
        self._replay(tenant, [job], (now, by), limits)
        return self._jobs[job.id]

    async def replay_all(
        self, tenant: TenantId | None, which: JobFilter, now: float, limits: EnqueueLimits, by: KeyId = NO_KEY
    ) -> int:
        wanted = replace(which, state=which.state or JobState.FAILED)
        usable = [job for job in self._matching(tenant, wanted) if not which.usable or job.model in which.usable]
        jobs = [job for job in usable if job.expires_at > now][:MOST_REPLAYED]
        self._replay(tenant, jobs, (now, by), limits)
        return len(jobs)

    async def delete(self, tenant: TenantId, name: JobName, now: float) -> Job | None:
        job = await self.find(tenant, name, now)
        if job is None:
            return None
        if job.state.is_open:
            raise Conflict("the job has not ended: cancel it first")
        self._jobs[job.id] = replace(job, expires_at=now)
        self._keys = {key: one for key, one in self._keys.items() if one != job.id}
        return self._jobs[job.id]

    async def claim(self, runner: RunnerId, quotas: Sequence[ClaimQuota], now: float) -> tuple[Job, ...]:
        self._promote(now)
        if runner not in self.runners or PAUSE_ALL in self._pauses:
            return ()
        return tuple(job for quota in quotas for job in self._claim(runner, quota, now))

    async def finish(self, ends: Sequence[End]) -> frozenset[JobId]:
        return frozenset(end.id for end in ends if self._finish(end))

    async def put_back(self, ends: Sequence[PutBack]) -> Mapping[JobId, JobState]:
        return {end.id: self._put_back(end) for end in ends if self._held(end.id, end.epoch) is not None}

    async def asked_to_stop(self, runner: RunnerId, now: float) -> tuple[Stop, ...]:
        mine = [job for job in self._jobs.values() if job.state is JobState.RUNNING and job.runner == runner]
        whys = ((job, self._why(job, now)) for job in mine)
        return tuple(Stop(id=job.id, epoch=job.epoch, why=why) for job, why in whys if why is not None)

    async def pause(self, scope: str, now: float) -> None:
        self._pauses.add(scope)

    async def resume(self, scope: str) -> None:
        self._pauses.discard(scope)

    async def paused(self) -> frozenset[str]:
        return frozenset(self._pauses)

    async def tidy(self, now: float) -> int:
        self._promote(now)
        ended = 0
        for job in list(self._open_ones()):
            if (over := overdue(job, now, is_revoked=job.key in self.revoked)) is not None:
                epoch = job.epoch + (job.state is JobState.RUNNING)
                self._end(replace(job, epoch=epoch), *over, now)
                ended += 1
        return ended

    async def shape(self) -> QueueShape:
        ready = [job for job in self._jobs.values() if job.state is JobState.QUEUED and job.id not in self._waiting]
        return QueueShape(
            jobs=sum(1 for _ in self._open_ones()),
            oldest_at=min((job.created_at for job in ready), default=0.0),
            due_at=min((job.deadline_at for job in ready), default=0.0),
        )

    async def unended(self) -> Unended:
        return Unended(requests=sum(1 for _ in self._open_ones()))

    async def expired(self, now: float, limit: int) -> tuple[Job, ...]:
        found = [job for job in self._jobs.values() if 0 < job.expires_at <= now]
        return tuple(sorted(found, key=lambda job: job.expires_at)[:limit])

    async def forget(self, jobs: Collection[JobId]) -> None:
        self._forget([job for job in jobs if job in self._jobs and self._jobs[job].expires_at])

    async def lose(self, runner: RunnerId, now: float) -> TakenOver:
        """Take over what a runner held, as the others do once it is dead."""
        self.runners.discard(runner)
        lost = [job for job in self._jobs.values() if job.state is JobState.RUNNING and job.runner == runner]
        ended = Counter(self._put_back(lost_end(job, now)) for job in lost)
        return TakenOver(
            runners=(runner,),
            requeued=ended[JobState.QUEUED],
            dead_letters=ended[JobState.FAILED],
            cancelled=ended[JobState.CANCELLED],
        )

    def _open_ones(self) -> Iterator[Job]:
        return (job for job in self._jobs.values() if job.state.is_open)

    def _matching(self, tenant: TenantId | None, which: JobFilter) -> Iterator[Job]:
        for job in self._jobs.values():
            wanted = (which.kind, which.state or job.state, which.reason or job.reason)
            if job.batch or wanted != (job.kind, job.state, job.reason) or tenant not in (None, job.tenant):
                continue
            if (which.model or job.model, which.error or job.error) == (job.model, job.error):
                yield job

    async def kept(self, tenant: TenantId, now: float) -> int:
        del now
        return sum(map(job_rows.kept, self._of(tenant)))

    def _of(self, tenant: TenantId) -> list[Job]:
        return [one for one in self._jobs.values() if one.tenant == tenant]

    def _open(self, job: Job, now: float) -> None:
        self._jobs[job.id] = job
        (self._waiting.add if job.not_before > now else self._waiting.discard)(job.id)
        flow = (job.version, job.tenant)
        if flow not in self._active:
            peers = [served for (version, _), served in self._served.items() if version == job.version]
            busy = [self._served[one] for one in self._active if one[0] == job.version]
            self._served[flow] = max(self._served.get(flow, 0.0), min(busy, default=max(peers, default=0.0)))
            self._active.add(flow)

    def _promote(self, now: float) -> None:
        for job in [self._jobs[one] for one in self._waiting]:
            if job.not_before <= now:
                self._open(replace(job, reason=Reason.NONE), now)

    def _claim(self, runner: RunnerId, quota: ClaimQuota, now: float) -> Iterator[Job]:
        left = quota.jobs
        for most in ((quota.jobs + 3) // 4, quota.jobs):
            flows = [flow for flow in self._active if flow[0] == quota.version and flow[1] not in quota.closed]
            for flow in sorted(flows, key=lambda one: self._served[one]):
                ready = self._ready(flow, now)
                if not ready and not any(self._is_ready(job, flow) for job in self._jobs.values()):
                    self._active.discard(flow)
                for job in ready[: min(most, left)]:
                    self._served[flow] += job.cost_tokens / self.weights.get(job.tenant, 1)
                    taken = replace(job, state=JobState.RUNNING, reason=Reason.NONE, runner=runner, started_at=now)
                    self._jobs[job.id] = replace(taken, epoch=job.epoch + 1, attempt=job.attempt + 1)
                    left -= 1
                    yield self._jobs[job.id]

    def _is_ready(self, job: Job, flow: Flow) -> bool:
        is_mine = (job.version, job.tenant) == flow
        return is_mine and job.state is JobState.QUEUED and job.id not in self._waiting

    def _ready(self, flow: Flow, now: float) -> list[Job]:
        found = [
            job
            for job in self._jobs.values()
            if self._is_ready(job, flow)
            and job.deadline_at > now
            and job.key not in self.revoked
            and not (job.batch and pause_of(job.batch) in self._pauses)
        ]
        return sorted(found, key=lambda job: (job.deadline_at, job.id))

    def _held(self, job: JobId, epoch: int) -> Job | None:
        found = self._jobs.get(job)
        return found if found is not None and (found.state, found.epoch) == (JobState.RUNNING, epoch) else None

    def _finish(self, end: End) -> bool:
        job = self._held(end.id, end.epoch)
        if job is None:
            return False
        told = replace(
            job, status=end.status, error=end.error, request=end.request, output=end.output,
            prompt_tokens=end.prompt_tokens, output_tokens=end.output_tokens,
        )  # fmt: skip
        if end.state is JobState.FAILED and end.request:
            self._note(job, end)
        self._end(told, end.state, end.reason, end.at)
        used = end.prompt_tokens + end.output_tokens
        if end.state is JobState.SUCCEEDED or end.reason is Reason.REFUSED or used:
            self._refund(job, used - job.cost_tokens)
        return True

    def _note(self, job: Job, end: End | PutBack) -> None:
        assert job.runner is not None
        told = Attempt(
            attempt=job.attempt, runner=job.runner, request=end.request,
            began_at=job.started_at, ended_at=end.at, error=end.error,
        )  # fmt: skip
        self._attempts.setdefault(job.id, []).append(told)

    def _put_back(self, end: PutBack) -> JobState:
        job = replace(self._jobs[end.id], error=end.error, request=end.request)
        state, reason = next_state(job, may_have_run=end.may_have_run)
        if end.may_have_run:
            self._note(job, end)
        job = replace(job, attempt=job.attempt - (not end.may_have_run), runner=None)
        if state is JobState.QUEUED:
            if not end.may_have_run:
                self._refund(job, -job.cost_tokens)
            not_before = min(end.not_before, job.deadline_at)
            self._open(replace(job, state=state, reason=end.reason, not_before=not_before, started_at=0.0), end.at)
        else:
            self._end(job, state, reason, end.at)
        return state

    def _refund(self, job: Job, tokens: int) -> None:
        self._served[job.version, job.tenant] += tokens / self.weights.get(job.tenant, 1)

    def _end(self, job: Job, state: JobState, reason: Reason, at: float) -> None:
        self._waiting.discard(job.id)
        expires_at = 0.0 if job.batch else at + job.keep_s
        self._jobs[job.id] = replace(job, state=state, reason=reason, ended_at=at, expires_at=expires_at)

    def _cancel(self, job: Job, now: float) -> None:
        if not job.state.is_open:
            return
        asked = replace(job, cancel_asked_at=job.cancel_asked_at or now)
        if job.state is JobState.QUEUED:
            self._end(asked, JobState.CANCELLED, Reason.CALLER, now)
        else:
            self._jobs[job.id] = asked

    def _replay(
        self, tenant: TenantId | None, jobs: Sequence[Job], as_of: tuple[float, KeyId], limits: EnqueueLimits
    ) -> None:
        now, by = as_of
        for job in jobs:
            if job.kind is not JobKind.JOB or job.state not in (JobState.FAILED, JobState.CANCELLED):
                raise Conflict("only a single job that failed or was cancelled runs again")
        if tenant is not None:
            job_rows.check(self._of(tenant), jobs, limits)
        for job in jobs:
            reason, begin = (Reason.NOT_BEFORE, job.not_before) if job.not_before > now else (Reason.NONE, 0.0)
            again = replace(
                stored(job, job.id),
                key=by or job.key,
                epoch=job.epoch + 1,
                reason=reason,
                created_at=now,
                not_before=begin,
            )
            self._open(replace(again, deadline_at=now + job.deadline_at - job.created_at), now)

    def _why(self, job: Job, now: float) -> StopReason | None:
        if job.cancel_asked_at:
            return StopReason.CANCELLED
        if job.deadline_at <= now:
            return StopReason.DEADLINE
        is_paused = PAUSE_ALL in self._pauses or (job.batch and pause_of(job.batch) in self._pauses)
        return StopReason.PAUSED if is_paused else None

    def _seen(self, job: Job) -> Job:
        is_paused = PAUSE_ALL in self._pauses or (job.batch != NO_BATCH and pause_of(job.batch) in self._pauses)
        return replace(job, reason=Reason.PAUSED) if job.state is JobState.QUEUED and is_paused else job

    def _forget(self, jobs: Sequence[JobId]) -> int:
        for job in jobs:
            self._jobs.pop(job)
            self._keys = {key: one for key, one in self._keys.items() if one != job}
        return len(jobs)
