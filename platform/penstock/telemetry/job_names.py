"""Metrics of jobs, their runners and webhooks; part of the catalogue in ``names.py``."""

from penstock.telemetry.definitions import LATENCY_S, Label, counter, gauge, histogram

WEBHOOK_ATTEMPTS = counter(
    "penstock_webhook_attempts",
    "Ended attempts to deliver a webhook: delivered, retried, failed (the last one), gone (410), fenced.",
    (Label.OUTCOME,),
)
WEBHOOKS_TURNED_OFF = counter(
    "penstock_webhooks_turned_off",
    "Webhook endpoints that the platform turned off: gone (410), failing (a whole schedule), backlog (100,000 due).",
    (Label.REASON,),
)
WEBHOOK_OLDEST_DUE_SECONDS = gauge(
    "penstock_webhook_oldest_due_seconds",
    "Seconds for which the oldest due delivery has waited for a connection, of endpoints that answer.",
)
WEBHOOK_CONNECTIONS = gauge("penstock_webhook_connections", "Open attempts to deliver webhooks.")


_START_S = (0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 300.0, 3600.0, 21_600.0, 86_400.0)
_TURNAROUND = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)

JOB_ATTEMPTS = counter(
    "penstock_job_attempts",
    "Attempts at jobs by what followed: succeeded, failed, cancelled, backoff, back (never ran), stopped, fenced.",
    (Label.OUTCOME,),
)
JOBS_ENDED = counter(
    "penstock_jobs_ended",
    "Jobs ended, by whether their promise was kept: done, refused (their own fault), cancelled, late, dead_letter.",
    (Label.OUTCOME,),
)
JOB_LINES = counter(
    "penstock_job_lines",
    "Lines of batches that have ended: completed, failed, or stopped by a cancel or the deadline.",
    (Label.OUTCOME,),
)
JOBS_TAKEN_OVER = counter("penstock_jobs_taken_over", "Jobs queued again because their runner was lost.")
JOB_RUN_ERRORS = counter("penstock_job_run_errors", "Attempts ended by an error of the runner's own code.")
JOBS_RUNNING = gauge("penstock_jobs_running", "Jobs that this runner holds.")
JOB_ENDS_WAITING = gauge("penstock_job_ends_waiting", "Ends of attempts that this runner has not stored yet.")
JOB_CLAIM_SECONDS = histogram("penstock_job_claim_seconds", "Time of one claim in the database.", buckets=LATENCY_S)
JOB_START_SECONDS = histogram(
    "penstock_job_start_seconds", "Time from the moment at which a job may run until its claim.", buckets=_START_S
)
JOB_TURNAROUND_RATIO = histogram(
    "penstock_job_turnaround_ratio",
    "Time from a job's submission to its end, as a part of the time until its deadline.",
    buckets=_TURNAROUND,
)
OLDEST_TRANSACTION_SECONDS = gauge(
    "penstock_oldest_transaction_seconds",
    "Time for which the oldest transaction of the database has been open, whoever has it.",
)
RUNNER_CONFIRMED_AT = gauge(
    "penstock_runner_confirmed_at_seconds", "Unix time at which this runner last confirmed that it may hold jobs."
)
JOBS_QUEUED = gauge("penstock_jobs_queued", "Jobs that have not ended, in the whole database.")
JOB_QUEUE_AGE_SECONDS = gauge("penstock_job_queue_age_seconds", "Age of the oldest job that may run and waits.")
JOB_QUEUE_DUE_SECONDS = gauge(
    "penstock_job_queue_due_seconds", "Time until the nearest deadline of a waiting job; a day if none waits."
)
