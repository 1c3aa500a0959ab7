"""Metrics of one runner."""

import traceback
from collections.abc import Sequence, Sized
from enum import StrEnum
from pathlib import Path

from penstock.domain.clock import DAY_S
from penstock.domain.jobs.batch import Counts
from penstock.domain.jobs.job import Job, JobState, QueueShape, Reason, TakenOver
from penstock.jobs.ending import Done
from penstock.telemetry import logs, names
from penstock.telemetry.metrics import Metrics, begin_at_zero


class Followed(StrEnum):
    """What followed an attempt, as a metric's label."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    BACKOFF = "backoff"
    BACK = "back"
    """It never ran."""
    STOPPED = "stopped"
    """Its runner drained, or the job was paused."""
    FENCED = "fenced"


class Ended(StrEnum):
    DONE = "done"
    REFUSED = "refused"
    CANCELLED = "cancelled"
    LATE = "late"
    DEAD_LETTER = "dead_letter"


class LineEnd(StrEnum):
    COMPLETED = "completed"
    FAILED = "failed"
    STOPPED = "stopped"


_ENDED = {
    JobState.SUCCEEDED: Ended.DONE,
    JobState.CANCELLED: Ended.CANCELLED,
    Reason.REFUSED: Ended.REFUSED,
    Reason.DEADLINE: Ended.LATE,
    Reason.DEAD_LETTER: Ended.DEAD_LETTER,
}


class RunnerMetrics:
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._attempts = metrics.counter(names.JOB_ATTEMPTS)
        self._ended = metrics.counter(names.JOBS_ENDED)
        begin_at_zero(self._attempts, Followed)
        begin_at_zero(self._ended, Ended)
        self._taken_over = metrics.counter(names.JOBS_TAKEN_OVER)
        self._errors = metrics.counter(names.JOB_RUN_ERRORS)
        self._claim_s = metrics.histogram(names.JOB_CLAIM_SECONDS)
        self._start_s = metrics.histogram(names.JOB_START_SECONDS)
        self._turnaround = metrics.histogram(names.JOB_TURNAROUND_RATIO)
        self._confirmed_at = metrics.gauge(names.RUNNER_CONFIRMED_AT)
        self._queued = metrics.gauge(names.JOBS_QUEUED)
        self._age_s, self._due_s = (
            metrics.gauge(names.JOB_QUEUE_AGE_SECONDS),
            metrics.gauge(names.JOB_QUEUE_DUE_SECONDS),
        )
        self._due_s.set(DAY_S)
        self._transaction_s = metrics.gauge(names.OLDEST_TRANSACTION_SECONDS)

    def watch(self, held: Sized, endings: Sized) -> None:
        self._metrics.gauge(names.JOBS_RUNNING).set_function(lambda: len(held))
        self._metrics.gauge(names.JOB_ENDS_WAITING).set_function(lambda: len(endings))

    def confirmed(self, now: float) -> None:
        self._confirmed_at.set(now)

    def claimed(self, jobs: Sequence[Job], seconds: float, now: float) -> None:
        self._claim_s.observe(seconds)
        for job in jobs:
            self._start_s.observe(max(0.0, now - max(job.created_at, job.not_before)))

    def ended(self, done: Done) -> None:
        following = done.next
        self._attempts.labels(outcome=_followed(done)).inc()
        if following.state.is_open:
            return
        state, reason = following.state, following.reason
        outcome = _ENDED.get(reason) if state is JobState.FAILED else _ENDED[state]
        self._ended.labels(outcome=outcome or Ended.REFUSED).inc()
        allowed_s = max(1.0, done.job.deadline_at - done.job.created_at)
        self._turnaround.observe((done.at - done.job.created_at) / allowed_s)

    def fenced(self, done: Done) -> None:
        self._attempts.labels(outcome=Followed.FENCED).inc()
        logs.logger().warning("job_fenced", object=done.job.name)

    def taken_over(self, found: TakenOver) -> None:
        if found.runners:
            self._taken_over.inc(found.requeued)
            self._ended.labels(outcome=Ended.DEAD_LETTER).inc(found.dead_letters)
            logs.logger().warning("runner_taken_over", count=found.requeued, object=",".join(map(str, found.runners)))

    def shape(self, found: QueueShape, now: float) -> None:
        self._queued.set(found.jobs)
        self._age_s.set(max(0.0, now - found.oldest_at) if found.oldest_at else 0.0)
        self._due_s.set(found.due_at - now if found.due_at else DAY_S)
        self._transaction_s.set(found.oldest_transaction_s)

    def late(self, number: int) -> None:
        self._ended.labels(outcome=Ended.LATE).inc(number)

    def crashed(self, error: Exception) -> None:
        self._errors.inc()
        last = traceback.extract_tb(error.__traceback__)[-1]
        detail = f"{Path(last.filename).name}:{last.lineno}"
        logs.logger().error("job_run_failed", error_type=type(error).__name__, detail=detail)


def _followed(done: Done) -> Followed:
    state, reason = done.next.state, done.next.reason
    if state is JobState.QUEUED:
        if done.next.counts:
            return Followed.BACKOFF
        return Followed.STOPPED if reason in (Reason.NONE, Reason.PAUSED) else Followed.BACK
    return {
        JobState.SUCCEEDED: Followed.SUCCEEDED,
        JobState.CANCELLED: Followed.CANCELLED,
        JobState.FAILED: Followed.FAILED,
    }[state]


class BatchMetrics:
    def __init__(self, metrics: Metrics) -> None:
        self._lines = metrics.counter(names.JOB_LINES)
        begin_at_zero(self._lines, LineEnd)

    def closed(self, counts: Counts) -> None:
        stopped = counts.total - counts.completed - counts.failed
        for end, lines in zip(LineEnd, (counts.completed, counts.failed, stopped), strict=True):
            self._lines.labels(outcome=end).inc(lines)
