"""Background responses on their way into the job store: implements the gateway's ``Background``.

A background response is a job like any other. One sealed object has its request, with
the turns before it, and what callers see until an engine has answered.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from penstock.domain.clock import Clock
from penstock.domain.errors import PenstockError, StoreUnavailable
from penstock.domain.ids import Alias
from penstock.domain.jobs.ids import JobName
from penstock.domain.jobs.job import EnqueueLimits, JobKind, NewJob, Submitted
from penstock.domain.jobs.payload import Extent, PayloadStore
from penstock.domain.jobs.stored_response import ResponseId, StoredResponse, object_of
from penstock.domain.serving.request import Api
from penstock.domain.tenancy.tenant import Principal
from penstock.gateway.deferred import response_bodies, turns
from penstock.gateway.deferred.background_responses import BackgroundRequest
from penstock.gateway.deferred.stored_responses import ResponseStore
from penstock.jobs.accepting import Accepted
from penstock.jobs.submitting import limits_of

PREFIX = "resp_"
_INPUT = b'{"input":'


class Accepting(Protocol):
    async def accept(self, who: Principal, api: Api, raw: bytes) -> Accepted: ...


class Intake(Protocol):
    async def submit(self, job: NewJob, limits: EnqueueLimits) -> Submitted: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittingResponses:
    jobs: Intake
    rows: ResponseStore
    payloads: PayloadStore
    accepting: Accepting
    clock: Clock
    ids: Callable[[], str]

    async def submit(self, who: Principal, wish: BackgroundRequest) -> ResponseId:
        """Store the object, then the response's row, then the job: without the last one nothing of it is found."""
        context = turns.context_of(wish.body)
        others = response_bodies.encoded({name: value for name, value in wish.body.items() if name != "input"})
        request = _INPUT + context + b"," + others[1:]
        accepted = await self.accepting.accept(who, Api.RESPONSES, request)
        name, now = JobName(f"{PREFIX}{self.ids()}"), self.clock.now()
        own = response_bodies.own_fields(ResponseId(name), now, wish.previous, is_background=True)
        begun = response_bodies.beginning(accepted.version, wish.body, own)
        stored = StoredResponse(
            id=ResponseId(name),
            tenant=who.tenant,
            object=object_of(ResponseId(name)),
            created_at=now,
            expires_at=now + who.plan.job_deadline_s + who.plan.keep_s,
            begin_bytes=len(begun),
            input_at=len(begun) + len(_INPUT),
            input_bytes=len(context),
            is_background=True,
            keeps_events=wish.keeps_events,
        )
        new = NewJob(
            name=name,
            tenant=who.tenant,
            key=who.key,
            kind=JobKind.RESPONSE,
            api=Api.RESPONSES,
            model=Alias(accepted.model),
            version=accepted.version,
            cost_tokens=accepted.cost_tokens,
            cost_micro_usd=accepted.cost_micro_usd,
            created_at=now,
            deadline_at=now + min(wish.deadline_s or who.plan.job_deadline_s, who.plan.job_deadline_s),
            max_attempts=who.plan.job_attempts,
            keep_s=who.plan.keep_s,
            input=Extent(object=stored.object, at=len(begun), size=len(request)),
            idempotency=_idempotency(wish),
            fingerprint=wish.fingerprint,
        )
        await self.payloads.put(who.tenant, stored.object, begun + request)
        await self.rows.add(stored)
        return await self._queued(new, who)

    async def _queued(self, new: NewJob, who: Principal) -> ResponseId:
        try:
            submitted = await self.jobs.submit(new, limits_of(who.plan))
        except StoreUnavailable:  # the job may be there
            raise
        except PenstockError:
            await self._drop(new)
            raise
        if not submitted.is_new:
            await self._drop(new)
        return ResponseId(submitted.job.name)

    async def _drop(self, new: NewJob) -> None:
        for name in await self.rows.delete(new.tenant, ResponseId(new.name)) or ():
            await self.payloads.delete(name)


def _idempotency(wish: BackgroundRequest) -> str:
    """Return the name of the caller's key: of this route alone, without the caller's text."""
    if not wish.idempotency_key:
        return ""
    return f"{Api.RESPONSES} {hashlib.sha256(wish.idempotency_key.encode()).hexdigest()}"
