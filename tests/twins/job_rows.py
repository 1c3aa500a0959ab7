"""A job as the stores hold it: at first, and after an attempt that did not deliver."""

from dataclasses import fields

from penstock.domain.jobs.ids import JobId
from penstock.domain.jobs.job import NO_REQUEST, Job, JobKind, JobState, NewJob, Reason
from penstock.domain.jobs.payload import NO_EXTENT

_SHARED = [one.name for one in fields(NewJob) if one.name != "idempotency"]


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


def next_state(job: Job, *, may_have_run: bool) -> tuple[JobState, Reason]:
    """Return a running job's state after an attempt that did not deliver."""
    if job.cancel_asked_at:
        return JobState.CANCELLED, Reason.CALLER
    if may_have_run and job.attempt >= job.max_attempts:
        return JobState.FAILED, Reason.DEAD_LETTER
    return JobState.QUEUED, Reason.NONE
