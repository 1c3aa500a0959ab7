"""Batches of classic models: why they start, how full they are, what waiting buys, whether compute is known, what waits
before them.
"""

from dashboards.layout import Board, Row
from dashboards.panels import lines, number, parts
from dashboards.queries import gauge, increase, mean, quantile, query, rate, ratio
from penstock.telemetry import names

NOW = Row(
    title="Now",
    panels=(
        number("Items", "Computed a second.", "ops", query(rate(names.BATCH_WAIT_SECONDS), "items")),
        number(
            "Mean batch",
            "Items of a batch: one at low load, more as load comes.",
            "short",
            query(mean(names.BATCH_ITEMS, window="5m"), "items"),
        ),
        number(
            "Fill",
            "Items of a batch against those that it has room for.",
            "percentunit",
            query(mean(names.BATCH_FILL_RATIO, window="5m"), "filled"),
        ),
        number(
            "Padding",
            "The part of what is computed that is padding; finer length buckets lessen it.",
            "percentunit",
            query(mean(names.BATCH_PADDING_RATIO, window="5m"), "padding"),
            steps=((None, "green"), (0.3, "orange"), (0.6, "red")),
        ),
    ),
)

WHEN = Row(
    title="When batches start",
    panels=(
        parts(
            "Trigger",
            "Idle: the device had nothing else; size and budget: full; deadline and wait: the promise asked for it.",
            "ops",
            query(rate(names.BATCHES, "trigger"), "{{trigger}}"),
        ),
        lines(
            "Wait",
            "Of an item, from the door to the start of its batch.",
            "s",
            query(quantile(0.5, names.BATCH_WAIT_SECONDS, "version"), "{{version}} p50"),
            query(quantile(0.99, names.BATCH_WAIT_SECONDS, "version"), "{{version}} p99"),
        ),
        lines(
            "Window",
            "How long an item may wait: the promise less predicted compute. At 0 a batch grows on a busy device only.",
            "s",
            query(gauge(names.BATCH_WINDOW_SECONDS, "version", take="min"), "{{version}}"),
        ),
        lines(
            "Size",
            "Items of a batch.",
            "short",
            query(quantile(0.5, names.BATCH_ITEMS, "version"), "{{version}} p50"),
            query(quantile(0.95, names.BATCH_ITEMS, "version"), "{{version}} p95"),
        ),
    ),
)

COMPUTE = Row(
    title="Compute",
    panels=(
        lines(
            "Compute",
            "Of a batch, as it was; the prediction is for the last one's size.",
            "s",
            query(quantile(0.5, names.BATCH_COMPUTE_SECONDS, "version"), "{{version}} p50"),
            query(quantile(0.99, names.BATCH_COMPUTE_SECONDS, "version"), "{{version}} p99"),
            query(gauge(names.BATCH_PREDICTED_SECONDS, "version", take="max"), "{{version}} predicted p99"),
        ),
        lines(
            "Beyond the prediction",
            "Batches that took longer than their predicted p99: about one of a hundred, more as a device slows down.",
            "percentunit",
            query(
                ratio(rate(names.BATCHES_BEYOND_PREDICTED, "version"), rate(names.BATCHES, "version")), "{{version}}"
            ),
        ),
        lines(
            "Left without a result",
            "In ten minutes, by why: cancelled, too late, poisoned, quarantined, out of memory, lost.",
            "short",
            query(increase(names.BATCH_LEFT, "version", "reason", window="10m"), "{{version}} {{reason}}"),
        ),
    ),
)

PREPARE = Row(
    title="The CPU tier",
    panels=(
        lines(
            "Waiting for a thread",
            "Inputs before they are tensors. A queue here asks for more cores, whatever the device does.",
            "short",
            query(gauge(names.PREPARE_WAITING, "version"), "{{version}}"),
        ),
        lines(
            "Wait for a thread",
            "Of an input, until it is decoded, scaled or tokenised.",
            "s",
            query(quantile(0.5, names.PREPARE_WAIT_SECONDS, "version"), "{{version}} p50"),
            query(quantile(0.99, names.PREPARE_WAIT_SECONDS, "version"), "{{version}} p99"),
        ),
        lines(
            "Preparing",
            "How long an input holds its thread.",
            "s",
            query(quantile(0.5, names.PREPARE_SECONDS, "version"), "{{version}} p50"),
            query(quantile(0.99, names.PREPARE_SECONDS, "version"), "{{version}} p99"),
        ),
    ),
)

BOARD = Board(
    title="Batching",
    says="Why do batches start, how full are they, and is compute known well enough for the promise?",
    rows=(NOW, WHEN, COMPUTE, PREPARE),
)
