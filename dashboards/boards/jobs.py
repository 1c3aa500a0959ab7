"""Jobs, and what is told of them: whether work that nobody waits for is done in time, and callers hear of it."""

from dashboards.layout import Board, Row
from dashboards.panels import lines, parts
from dashboards.queries import gauge, increase, query, rate
from penstock.telemetry import names

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
    says="Is work that nobody waits for done in time, and do its owners hear of it?",
    rows=(WEBHOOKS, RESPONSES),
)
