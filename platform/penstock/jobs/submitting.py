"""Single jobs from their submit to their answer: the service behind ``/v1/jobs``.

The request is sealed in the payload store before its row exists, so no row is without its request. A submit that ends
in between leaves an object without a row, which retention deletes.

Trade-off: a submit waits for two disks; in return nothing that was answered with 202 can be lost.
"""

import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

import msgspec

from penstock.domain.clock import Clock
from penstock.domain.errors import (
    BadRequest,
    Conflict,
    IdempotencyMismatch,
    InvalidField,
    OverLimit,
    StoreUnavailable,
    UnknownModel,
    UnknownObject,
)
from penstock.domain.ids import Alias
from penstock.domain.jobs.ids import EndpointId, JobName
from penstock.domain.jobs.job import TOO_MANY_ACTS, EnqueueLimits, Job, JobFilter, JobKind, JobState, NewJob
from penstock.domain.jobs.payload import Extent, PayloadStore, object_id
from penstock.domain.tenancy.tenant import FETCHED_S, Plan, Principal
from penstock.gateway.deferred import jobs as routes
from penstock.gateway.deferred import shapes
from penstock.gateway.deferred.jobs import PREFIX, JobAnswer, JobQuery, JobRequest
from penstock.jobs import hours
from penstock.jobs.accepting import Accepting, inside
from penstock.jobs.ports import JobIntake
from penstock.jobs.principal import check_model

REQUEST = "request"
_SORTED = msgspec.json.Encoder(order="deterministic")


class Webhooks(Protocol):
    async def check(self, who: Principal, endpoint: EndpointId) -> None:
        """Raise ``InvalidField`` if the tenant has no such endpoint, or if it is off."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitting:
    store: JobIntake
    payloads: PayloadStore
    accepting: Accepting
    webhooks: Webhooks
    workers: hours.Workers
    clock: Clock
    ids: Callable[[], str]

    async def submit(self, who: Principal, wish: JobRequest) -> tuple[Job, bool]:
        key, body = _idempotency(wish), _fingerprint(wish)
        if key and (earlier := await self.store.keyed(who.tenant, key)) is not None:
            check_model(who, earlier.model, earlier.version)
            if earlier.fingerprint != body:
                raise IdempotencyMismatch(param="idempotency-key")
            return earlier, True
        now = self.clock.now()
        until = _deadline(wish, who.plan, now)
        if wish.webhook:
            await self.webhooks.check(who, EndpointId(wish.webhook))
        try:
            accepted = await self.accepting.accept(who, wish.api, wish.request)
        except BadRequest as error:
            raise inside(error, REQUEST) from error
        name = JobName(f"{PREFIX}{self.ids()}")
        place = object_id("job", name, "input")
        await self.payloads.put(who.tenant, place, wish.request)
        new = NewJob(
            name=name,
            tenant=who.tenant,
            key=who.key,
            kind=JobKind.JOB,
            api=wish.api,
            model=Alias(accepted.model),
            version=accepted.version,
            cost_tokens=accepted.cost_tokens,
            cost_micro_usd=accepted.cost_micro_usd,
            created_at=now,
            deadline_at=until,
            not_before=wish.not_before,
            max_attempts=who.plan.job_attempts,
            keep_s=who.plan.keep_s,
            input=Extent(object=place, size=len(wish.request)),
            webhook=EndpointId(wish.webhook),
            metadata=wish.metadata,
            idempotency=key,
            fingerprint=body,
        )
        return await self._stored(new, limits_of(who.plan))

    async def _stored(self, new: NewJob, limits: EnqueueLimits) -> tuple[Job, bool]:
        """Store the row; the object of a row that is not there is deleted at once."""
        try:
            stored = await self.store.submit(new, limits)
        except StoreUnavailable:  # the row may be there
            raise
        except BaseException:
            await self._drop(new)
            raise
        if not stored.is_new:
            await self._drop(new)
        return stored.job, not stored.is_new

    async def _drop(self, new: NewJob) -> None:
        with suppress(StoreUnavailable):
            await self.payloads.delete(new.input.object)

    async def find(self, who: Principal, name: str) -> JobAnswer:
        job = self._seen(who, _there(await self.store.find(who.tenant, JobName(name), self.clock.now())))
        tried = await self.store.attempts(job.id)
        if not job.output.object:
            return JobAnswer(job=job, attempts=tried)
        answer = await self.payloads.get(who.tenant, job.output.object, job.output.at, job.output.size)
        if who.plan.zero_retention:
            with suppress(Conflict):  # it expires already
                await self.store.delete(who.tenant, job.name, self.clock.now() + FETCHED_S)
        return JobAnswer(job=job, answer=answer, attempts=tried)

    async def page(self, who: Principal, wanted: JobQuery) -> tuple[Sequence[Job], bool]:
        which = JobFilter(state=JobState(wanted.state) if wanted.state else None, model=Alias(wanted.model))
        page = wanted.page
        now, after = self.clock.now(), JobName(page.after) if page.after else None
        if after is not None and await self.store.find(who.tenant, after, now) is None:
            raise shapes.unlisted()
        found = await self.store.page(
            who.tenant, which, now, limit=page.limit + 1, after=after, newest_first=not page.is_oldest_first
        )
        return [self._seen(who, one) for one in found[: page.limit]], len(found) > page.limit

    def _seen(self, who: Principal, job: Job) -> Job:
        if job.state is not JobState.QUEUED:
            return job
        reason = hours.seen(job.reason, who.plan, self.clock.now(), (job.version,), self.workers)
        return replace(job, reason=reason)

    async def cancel(self, who: Principal, name: str) -> Job:
        job = _there(await self.store.cancel(who.tenant, JobName(name), self.clock.now()))
        if job.state in (JobState.SUCCEEDED, JobState.FAILED):
            raise Conflict(f"the job has ended: it is {job.state}", param="job")
        return job

    async def replay(self, who: Principal, name: str) -> Job:
        now = self.clock.now()
        job = _there(await self.store.find(who.tenant, JobName(name), now))
        check_model(who, job.model, job.version)
        return _there(await self.store.replay(who.tenant, job.name, now, limits_of(who.plan), who.key))

    async def replay_all(self, who: Principal, model: str, error: str) -> int:
        if model and not who.may_use(model):
            raise UnknownModel(f"the model {model!r} does not exist, or this key may not see it", param="model")
        which = JobFilter(state=JobState.FAILED, model=Alias(model), error=error, usable=who.models)
        try:
            return await self.store.replay_all(who.tenant, which, self.clock.now(), limits_of(who.plan), who.key)
        except OverLimit as over:
            if over.reason == TOO_MANY_ACTS:
                raise
            says = f"{over.message}; none was queued: replay fewer, by model or error or each by its id"
            raise type(over)(says, reason=over.reason) from over

    async def delete(self, who: Principal, name: str) -> None:
        job = _there(await self.store.delete(who.tenant, JobName(name), self.clock.now()))
        with suppress(StoreUnavailable):  # retention deletes what is left here
            for place in filter(None, (job.input.object, job.output.object)):
                await self.payloads.delete(place)


def limits_of(plan: Plan) -> EnqueueLimits:
    return EnqueueLimits(tokens=plan.batch_enqueued_tokens, jobs=plan.batch_jobs, kept_bytes=plan.file_bytes)


def _there(job: Job | None) -> Job:
    if job is None:
        raise UnknownObject
    return job


def _deadline(wish: JobRequest, plan: Plan, now: float) -> float:
    """Return the earlier of the caller's deadline and the plan's; raises ``InvalidField`` if the job could not start
    before it.
    """
    within_s = min(s for s in (wish.deadline_s, plan.job_deadline_s, routes.MOST_DEADLINE_S) if s > 0.0)
    if wish.not_before >= now + within_s:
        raise InvalidField(
            f"not_before comes after the deadline, {within_s:.0f} s from now: start earlier, or give more time",
            param="not_before",
        )
    return now + within_s


def _idempotency(wish: JobRequest) -> str:
    """Return the name of the caller's key: of this route alone, without the caller's text."""
    if not wish.idempotency_key:
        return ""
    return f"{routes.JOBS} {hashlib.sha256(wish.idempotency_key.encode()).hexdigest()}"


def _fingerprint(wish: JobRequest) -> str:
    """Return the digest of everything that the caller asked for; the request counts byte by byte."""
    rest = (wish.api, wish.deadline_s, wish.not_before, wish.webhook, dict(wish.metadata))
    return hashlib.sha256(_SORTED.encode(rest) + b"\x1f" + wish.request).hexdigest()
