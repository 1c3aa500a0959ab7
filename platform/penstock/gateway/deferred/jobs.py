"""Single jobs: requests that are answered later. Submit one, take its answer, cancel, replay or delete it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec
from fastapi import FastAPI, Request, Response

from penstock.domain.errors import InvalidField, LosesWorkers
from penstock.domain.jobs.job import Attempt, Job, JobState, Reason
from penstock.domain.serving.request import JSON_APIS, Api
from penstock.domain.tenancy.tenant import Principal
from penstock.gateway.deferred import shapes
from penstock.gateway.deferred.access import Access
from penstock.gateway.deferred.shapes import Paged
from penstock.gateway.deferred.submits import Submits
from penstock.gateway.openai import head

JOBS = "/v1/jobs"
ONE = f"{JOBS}/{{job}}"
PREFIX = "job_"
ACCEPTED = 202
MOST_WEBHOOK_CHARS = 128
REPLAYED = {"idempotency-replayed": "true"}
MOST_DEADLINE_S = 30 * 86_400.0
"""The longest time that a caller may give a job: as long as OpenAI keeps a batch's files."""
LEAST_DEADLINE_S = 1.0
"""The shortest: below it a job ends before a runner claims it, as a stored request for nothing."""
MESSAGES = {
    Reason.DEADLINE: "The deadline passed before the job was done.",
    Reason.DEAD_LETTER: "Each of its attempts failed; replay queues it again, once the cause is gone.",
    Reason.KEY_REVOKED: "The key that submitted it was revoked before it began.",
    Reason.CALLER: "It was cancelled.",
}
"""Why a job ended without the answer that was asked for, by its reason."""
LOSES_WORKERS = (
    "Workers were lost each time it ran, so it is refused for three minutes after the last one: change the request, "
    "or replay it later, once the model's engine is mended."
)


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    """``request`` is left as JSON: the API's own parser reads it."""

    api: str
    request: msgspec.Raw
    deadline_s: float | None = None
    not_before: float | None = None
    webhook: str | None = None
    metadata: dict[str, str] | None = None


class _Replay(msgspec.Struct, forbid_unknown_fields=True):
    model: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """``deadline_s`` and ``not_before`` are 0 if not given."""

    api: Api
    request: bytes
    deadline_s: float = 0.0
    not_before: float = 0.0
    webhook: str = ""
    metadata: Mapping[str, str]
    idempotency_key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobQuery:
    page: Paged
    state: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAnswer:
    job: Job
    answer: bytes = b""
    attempts: Sequence[Attempt] = ()


class Jobs(Protocol):
    """The service behind these routes; objects of other tenants raise ``UnknownObject``."""

    async def submit(self, who: Principal, wish: JobRequest) -> tuple[Job, bool]:
        """Also whether an earlier submit under its idempotency key made it."""
        ...

    async def find(self, who: Principal, name: str) -> JobAnswer: ...

    async def page(self, who: Principal, wanted: JobQuery) -> tuple[Sequence[Job], bool]:
        """Return a page's jobs, and whether there are more."""
        ...

    async def cancel(self, who: Principal, name: str) -> Job:
        """Raises ``Conflict`` if the job has ended otherwise."""
        ...

    async def replay(self, who: Principal, name: str) -> Job:
        """A failed or cancelled job; raises ``Conflict`` for any other."""
        ...

    async def replay_all(self, who: Principal, model: str, error: str) -> int:
        """Failed jobs of a model and with a last error, if these are given: all of them or, above a limit, none."""
        ...

    async def delete(self, who: Principal, name: str) -> None:
        """Raises ``Conflict`` if the job has not ended."""
        ...


def add_jobs(api: FastAPI, access: Access, jobs: Jobs, submits: Submits) -> None:
    _add_submit(api, access, jobs, submits)

    @api.get(JOBS)
    async def page(request: Request) -> Response:
        who, query = access.caller(request), request.query_params
        found, has_more = await jobs.page(who, _wanted(query))
        return shapes.listed([told(one) for one in found], has_more=has_more)

    @api.get(ONE)
    async def one(request: Request, job: str) -> Response:
        found = await jobs.find(access.caller(request), shapes.named(job, PREFIX))
        return shapes.answer(told_whole(found))

    @api.post(f"{ONE}/cancel")
    async def cancel(request: Request, job: str) -> Response:
        return shapes.answer(told(await jobs.cancel(access.caller(request), shapes.named(job, PREFIX))))

    @api.post(f"{ONE}/replay")
    async def replay(request: Request, job: str) -> Response:
        who = access.caller(request)
        async with submits.one(who.tenant):
            return shapes.answer(told(await jobs.replay(who, shapes.named(job, PREFIX))), ACCEPTED)

    @api.post(f"{JOBS}/replay")
    async def replay_all(request: Request) -> Response:
        who = access.caller(request)
        async with submits.one(who.tenant):
            asked = shapes.body(await request.body() or b"{}", _Replay)
            number = await jobs.replay_all(who, asked.model, asked.error)
        return shapes.answer({"object": "replay", "jobs": number}, ACCEPTED)

    @api.delete(ONE)
    async def delete(request: Request, job: str) -> Response:
        await jobs.delete(access.caller(request), shapes.named(job, PREFIX))
        return shapes.answer({"id": job, "object": "job", "deleted": True})


def _add_submit(api: FastAPI, access: Access, jobs: Jobs, submits: Submits) -> None:
    @api.post(JOBS)
    async def submit(request: Request) -> Response:
        who = access.caller(request)
        async with submits.one(who.tenant):
            key = head.idempotency_key(dict(request.headers.raw))
            job, is_repeated = await jobs.submit(who, _wish(await request.body(), key))
        return shapes.answer(told(job), ACCEPTED, REPLAYED if is_repeated else None)


def _wish(raw: bytes, key: str) -> JobRequest:
    asked = shapes.body(raw, _Body)
    if asked.api not in JSON_APIS:
        raise InvalidField(f"api is one of {', '.join(JSON_APIS)}", param="api")
    metadata = asked.metadata or {}
    shapes.check_metadata(metadata)
    if asked.deadline_s is not None and not LEAST_DEADLINE_S <= asked.deadline_s <= MOST_DEADLINE_S:
        says = f"deadline_s is the seconds from now, from {LEAST_DEADLINE_S:.0f} to {MOST_DEADLINE_S:.0f}"
        raise InvalidField(says, param="deadline_s")
    if asked.not_before is not None and asked.not_before < 0.0:
        raise InvalidField("not_before is a Unix second, from 0 on: leave it out to start at once", param="not_before")
    if asked.webhook is not None and not 1 <= len(asked.webhook) <= MOST_WEBHOOK_CHARS:
        raise InvalidField("webhook is the id of one of your endpoints", param="webhook")
    return JobRequest(
        api=Api(asked.api),
        request=bytes(asked.request),
        deadline_s=asked.deadline_s or 0.0,
        not_before=asked.not_before or 0.0,
        webhook=asked.webhook or "",
        metadata=metadata,
        idempotency_key=key,
    )


def _wanted(query: Mapping[str, str]) -> JobQuery:
    state = query.get("state", "")
    if state and state not in set(JobState):
        raise InvalidField(f"state is one of {', '.join(JobState)}", param="state")
    return JobQuery(page=shapes.paged(query), state=state, model=query.get("model", ""))


def told(job: Job) -> dict[str, object]:
    """Times are whole Unix seconds, null if they have not come."""
    return {
        "id": job.name,
        "object": "job",
        "state": job.state,
        "reason": job.reason or None,
        "api": job.api,
        "model": job.model,
        "version": job.version,
        "created_at": int(job.created_at),
        "not_before": _second(job.not_before),
        "deadline_at": int(job.deadline_at),
        "started_at": _second(job.started_at),
        "cancel_requested_at": _second(job.cancel_asked_at),
        "ended_at": _second(job.ended_at),
        "expires_at": _second(job.expires_at),
        "attempt": job.attempt,
        "usage": _usage(job) if job.state is JobState.SUCCEEDED else None,
        "error": _error(job),
        "webhook": job.webhook or None,
        "metadata": job.metadata,
    }


def told_whole(found: JobAnswer) -> dict[str, object]:
    job = found.job
    body = msgspec.Raw(found.answer) if found.answer else None
    response = {"status_code": job.status, "request_id": job.request or None, "body": body} if job.status else None
    return {**told(job), "response": response, "attempts": [_attempt(one) for one in found.attempts]}


def _second(at: float) -> int | None:
    return int(at) or None


def _usage(job: Job) -> dict[str, int]:
    prompt, output = job.prompt_tokens, job.output_tokens
    return {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output}


def _error(job: Job) -> dict[str, str] | None:
    if job.state not in (JobState.FAILED, JobState.CANCELLED) or not (code := job.error or job.reason):
        return None
    message = LOSES_WORKERS if code == LosesWorkers.code else MESSAGES.get(job.reason, "The answer says why.")
    return {"code": code, "message": message}


def _attempt(one: Attempt) -> dict[str, object]:
    return {
        "attempt": one.attempt,
        "request_id": one.request or None,
        "began_at": _second(one.began_at),
        "ended_at": _second(one.ended_at),
        "error": one.error or None,
    }
