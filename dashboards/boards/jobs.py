"""Jobs, and what is told of them: whether work that nobody waits for is done in time, and callers hear of it."""

from dashboards.layout import Board, Row
from dashboards.panels import lines, number, parts
from dashboards.queries import gauge, increase, quantile, query, rate, series
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
            "Refused: for the request's own fault; late: its deadline passed; dead letter: its attempts are spent.",
            "ops",
            query(rate(names.JOBS_ENDED, "outcome"), "{{outcome}}"),
        ),
        parts(
            "Lines of batches",
            "Of batches that have ended; stopped: by a cancel or the deadline.",
            "short",
            query(increase(names.JOB_LINES, "outcome", window="1h"), "{{outcome}}"),
        ),
        lines(
            "Turnaround",
            "From submission to end, in parts of the time until the deadline: above 1 it is late.",
            "short",
            query(quantile(0.5, names.JOB_TURNAROUND_RATIO), "p50"),
            query(quantile(0.99, names.JOB_TURNAROUND_RATIO), "p99"),
        ),
        lines(
            "Start",
            "From the moment at which a job may run to its claim: milliseconds while idle, else the queue's length.",
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
            "Back: it never ran, for want of room. Backoff: it failed, and has another. Fenced: its runner came late.",
            "ops",
            query(rate(names.JOB_ATTEMPTS, "outcome"), "{{outcome}}"),
        ),
        lines(
            "Lost runners",
            "In ten minutes: jobs queued again since their runner was lost; attempts that a runner's own code failed.",
            "short",
            query(increase(names.JOBS_TAKEN_OVER, window="10m"), "taken over"),
            query(increase(names.JOB_RUN_ERRORS, window="10m"), "own errors"),
        ),
        lines(
            "Claim",
            "Time of one claim in the database: milliseconds, whatever waits.",
            "s",
            query(quantile(0.5, names.JOB_CLAIM_SECONDS), "p50"),
            query(quantile(0.99, names.JOB_CLAIM_SECONDS), "p99"),
        ),
        lines(
            "Oldest transaction",
            "Of the database, whoever has it open: claims step over all rows that it may still see.",
            "s",
            query(gauge(names.OLDEST_TRANSACTION_SECONDS, take="max"), "oldest"),
        ),
        lines(
            "Lease",
            "Seconds since each runner last confirmed that it may hold jobs: it does so twice a second.",
            "s",
            query(f"time() - max by (instance) ({series(names.RUNNER_CONFIRMED_AT)} > 0)", "{{instance}}"),
        ),
        lines(
            "Ends that wait",
            "Ends of attempts that could not be stored yet: the database or the store of payloads is away.",
            "short",
            query(gauge(names.JOB_ENDS_WAITING, "instance"), "{{instance}}"),
        ),
    ),
)

WEBHOOKS = Row(
    title="Webhooks",
    panels=(
        parts(
            "Attempts",
            "A second. Retried: no answer 2xx; failed: that was the last one; fenced: another runner had the delivery.",
            "ops",
            query(rate(names.WEBHOOK_ATTEMPTS, "outcome"), "{{outcome}}"),
        ),
        lines(
            "Oldest due",
            "How long a delivery to an endpoint that answers has waited for a connection: a fraction of a second.",
            "s",
            query(gauge(names.WEBHOOK_OLDEST_DUE_SECONDS, take="max"), "oldest"),
        ),
        lines(
            "Open attempts",
            "Of all runners. Each that hangs is one for fifteen seconds.",
            "short",
            query(gauge(names.WEBHOOK_CONNECTIONS, take="sum"), "open"),
        ),
        lines(
            "Endpoints turned off",
            "In a day: gone (410), or failing through a whole schedule.",
            "short",
            query(increase(names.WEBHOOKS_TURNED_OFF, "reason", window="1d"), "{{reason}}"),
        ),
    ),
)

RESPONSES = Row(
    title="Stored responses",
    panels=(
        lines(
            "Answers to keep",
            "A second. Failed: a store was away or full. Dropped: too many waited for it. Neither can be continued.",
            "ops",
            query(rate(names.KEPT_RESPONSES, "state"), "{{state}}"),
        ),
    ),
)

BOARD = Board(
    title="Jobs",
    says="Is work that nobody waits for done in time, what becomes of its attempts, and do its owners hear of it?",
    rows=(NOW, ENDS, ATTEMPTS, WEBHOOKS, RESPONSES),
)
