"""Jobs and batch lines: what waits, how fast it begins, how attempts end, whether promises are kept, who runs them."""

from dashboards.layout import Board, Row
from dashboards.panels import lines, number, parts
from dashboards.queries import gauge, increase, quantile, query, rate
from penstock.telemetry import names

NOW = Row(
    title="Now",
    panels=(
        number(
            "Not ended",
            "Jobs and lines of batches that wait or run.",
            "short",
            query(gauge(names.JOBS_QUEUED, take="max"), "jobs"),
        ),
        number("Running", "Held by all runners.", "short", query(gauge(names.JOBS_RUNNING, take="sum"), "jobs")),
        number(
            "Nearest deadline",
            "Of a job that waits. Below zero, it is too late.",
            "s",
            query(gauge(names.JOB_QUEUE_DUE_SECONDS, take="min"), "due"),
            steps=((None, "red"), (600, "orange"), (3600, "green")),
        ),
        number(
            "Oldest that waits",
            "Age of the oldest job that may run: batch work yields, so hours are normal within its window.",
            "s",
            query(gauge(names.JOB_QUEUE_AGE_SECONDS, take="max"), "age"),
        ),
    ),
)

ENDS = Row(
    title="Promises",
    panels=(
        parts(
            "Ended",
            "Done; refused for the request's own fault; cancelled; late: its deadline passed; dead letter: attempts spent.",
            "ops",
            query(rate(names.JOBS_ENDED, "outcome"), "{{outcome}}"),
        ),
        lines(
            "Turnaround",
            "From submission to end, as a part of the time until the deadline: above 1 it is late.",
            "percentunit",
            query(quantile(0.5, names.JOB_TURNAROUND_RATIO), "p50"),
            query(quantile(0.99, names.JOB_TURNAROUND_RATIO), "p99"),
        ),
        lines(
            "Start",
            "From the moment at which a job may run to its claim: milliseconds while idle, the queue's length otherwise.",
            "s",
            query(quantile(0.5, names.JOB_START_SECONDS), "p50"),
            query(quantile(0.99, names.JOB_START_SECONDS), "p99"),
        ),
    ),
)

ATTEMPTS = Row(
    title="Attempts and runners",
    panels=(
        parts(
            "Attempts",
            "Back: it never ran, for want of room. Backoff: it failed, and is tried again. Fenced: its runner was too late.",
            "ops",
            query(rate(names.JOB_ATTEMPTS, "outcome"), "{{outcome}}"),
        ),
        lines(
            "Lost runners",
            "In ten minutes: jobs queued again because their runner was lost, and attempts that the runner's code failed.",
            "short",
            query(increase(names.JOBS_TAKEN_OVER, window="10m"), "taken over"),
            query(increase(names.JOB_RUN_ERRORS, window="10m"), "own errors"),
        ),
        lines(
            "Claim",
            "Time of one claim in the database.",
            "s",
            query(quantile(0.5, names.JOB_CLAIM_SECONDS), "p50"),
            query(quantile(0.99, names.JOB_CLAIM_SECONDS), "p99"),
        ),
        lines(
            "Ends that wait",
            "Ends of attempts that could not be stored yet: the database or the store of payloads is away.",
            "short",
            query(gauge(names.JOB_ENDS_WAITING, "instance"), "{{instance}}"),
        ),
    ),
)

BOARD = Board(
    title="Jobs",
    says="Does deferred work end in time, what becomes of its attempts, and do runners live?",
    rows=(NOW, ENDS, ATTEMPTS),
)
