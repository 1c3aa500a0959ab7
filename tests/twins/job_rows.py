"""A job as the stores hold it: at first, and after an attempt that did not deliver."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields

import msgspec

from penstock.domain.errors import ExceedsLimit
from penstock.domain.ids import RequestId
from penstock.domain.jobs.errors import NoFileRoom, OverEnqueued
from penstock.domain.jobs.ids import JobId
from penstock.domain.jobs.job import NO_REQUEST, EnqueueLimits, Job, JobKind, JobState, NewJob, PutBack, Reason
from penstock.domain.jobs.payload import NO_EXTENT, ROW_BYTES

_SHARED = [one.name for one in fields(NewJob) if one.name != "idempotency"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Enqueued:
    """What a tenant's open jobs of one model reserve."""

    tokens: int = 0
    jobs: int = 0


def stored(job: NewJob | Job, number: JobId) -> Job:
    shared = {name: getattr(job, name) for name in _SHARED}
    not_before = min(job.not_before, job.deadline_at)
    return Job(
        **{**shared, "not_before": not_before, "kind": JobKind(job.kind)},
        id=number,
        state=JobState.QUEUED,
        reason=Reason.NOT_BEFORE if not_before > job.created_at else Reason.NONE,
        attempt=0,
        epoch=0,
        runner=None,
        started_at=0.0,
        ended_at=0.0,
        cancel_asked_at=0.0,
        expires_at=0.0,
        output=NO_EXTENT,
        status=0,
        error="",
        request=NO_REQUEST,
        prompt_tokens=0,
        output_tokens=0,
    )


def overdue(job: Job, now: float, *, is_revoked: bool) -> tuple[JobState, Reason] | None:
    """Return the end of a job that is late, cancelled or without its key; None if it is none of these."""
    if job.state is JobState.RUNNING:
        is_over = 0 < job.cancel_asked_at < now - 20 or job.deadline_at < now - 10
        is_cancelled, reason = bool(job.cancel_asked_at), Reason.CALLER
    else:
        is_over = is_revoked or job.deadline_at <= now
        is_cancelled, reason = is_revoked, Reason.KEY_REVOKED
    if not is_over:
        return None
    return (JobState.CANCELLED, reason) if is_cancelled else (JobState.FAILED, Reason.DEADLINE)


def lost_end(job: Job, now: float) -> PutBack:
    """Return the end of an attempt whose runner is dead."""
    return PutBack(
        id=job.id, epoch=job.epoch, at=now, not_before=0.0, reason=Reason.RUNNER_LOST, may_have_run=True,
        error="runner_lost", request=RequestId(f"{job.name}-{job.epoch}"),
    )  # fmt: skip


def next_state(job: Job, *, may_have_run: bool) -> tuple[JobState, Reason]:
    """Return a running job's state after an attempt that did not deliver."""
    if job.cancel_asked_at:
        return JobState.CANCELLED, Reason.CALLER
    if may_have_run and job.attempt >= job.max_attempts:
        return JobState.FAILED, Reason.DEAD_LETTER
    return JobState.QUEUED, Reason.NONE


def kept(one: NewJob | Job) -> int:
    """Return the bytes that it counts for among those of its tenant."""
    own = ROW_BYTES - len("{}") + len(msgspec.json.encode(one.metadata)) + (0 if one.batch else one.input.size)
    return own + (one.output.size if isinstance(one, Job) else 0)


def check(mine: Sequence[Job], added: Sequence[NewJob] | Sequence[Job], limits: EnqueueLimits) -> None:
    """Compare a tenant's jobs and the added ones with its limits."""
    asked, held, opened = Counter[str](), Counter[str](), [one for one in mine if one.state.is_open]
    for job in added:
        asked[job.model] += job.cost_tokens
    for one in opened:
        held[one.model] += one.cost_tokens
    if limits.jobs and len(opened) + len(added) > limits.jobs:
        raise ExceedsLimit if len(added) > limits.jobs else OverEnqueued
    for model, tokens in asked.items():
        if limits.tokens and held[model] + tokens > limits.tokens:
            raise ExceedsLimit if tokens > limits.tokens else OverEnqueued
    more = sum(kept(one) for one in added if isinstance(one, NewJob))
    if more and 0 < limits.kept_bytes < sum(map(kept, mine)) + more:
        raise ExceedsLimit if more > limits.kept_bytes else NoFileRoom
