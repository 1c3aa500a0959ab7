"""Metrics of classic models' batches; part of the catalogue in ``names.py``."""

from penstock.telemetry.definitions import LATENCY_S, Label, Metric, MetricKind

_SIZES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)
_RATIOS = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)

BATCHES = Metric(
    name="penstock_batches",
    kind=MetricKind.COUNTER,
    help="Batches by what started them: size, budget (of tokens, pixels, seconds), deadline, wait, idle (device).",
    labels=(Label.VERSION, Label.TRIGGER),
)
BATCH_ITEMS = Metric(
    name="penstock_batch_items",
    kind=MetricKind.HISTOGRAM,
    help="Items of a batch.",
    labels=(Label.VERSION,),
    buckets=_SIZES,
)
BATCH_FILL_RATIO = Metric(
    name="penstock_batch_fill_ratio",
    kind=MetricKind.HISTOGRAM,
    help="Items in a batch as a share of its capacity.",
    labels=(Label.VERSION,),
    buckets=_RATIOS,
)
BATCH_PADDING_RATIO = Metric(
    name="penstock_batch_padding_ratio",
    kind=MetricKind.HISTOGRAM,
    help="Share of a batch's tokens or pixels that is padding; it is charged to no tenant.",
    labels=(Label.VERSION,),
    buckets=_RATIOS,
)
BATCH_WAIT_SECONDS = Metric(
    name="penstock_batch_wait_seconds",
    kind=MetricKind.HISTOGRAM,
    help="Time from an item's admission until its batch starts.",
    labels=(Label.VERSION,),
    buckets=LATENCY_S,
)
BATCH_COMPUTE_SECONDS = Metric(
    name="penstock_batch_compute_seconds",
    kind=MetricKind.HISTOGRAM,
    help="Time of a batch on the device.",
    labels=(Label.VERSION,),
    buckets=LATENCY_S,
)
BATCH_WINDOW_SECONDS = Metric(
    name="penstock_batch_window_seconds",
    kind=MetricKind.GAUGE,
    help="Longest time that an item may wait, at the last batch's size: the SLO less the p99 of compute and a margin.",
    labels=(Label.VERSION,),
)
BATCH_PREDICTED_SECONDS = Metric(
    name="penstock_batch_predicted_seconds",
    kind=MetricKind.GAUGE,
    help="Predicted p99 of the last batch's compute time.",
    labels=(Label.VERSION,),
)
BATCHES_BEYOND_PREDICTED = Metric(
    name="penstock_batches_beyond_predicted",
    kind=MetricKind.COUNTER,
    help="Batches that took longer than their predicted p99.",
    labels=(Label.VERSION,),
)
BATCH_LEFT = Metric(
    name="penstock_batch_items_left",
    kind=MetricKind.COUNTER,
    help="Items dropped without a result, by reason: cancelled, expired, late, poisoned, quarantined, lost and others.",
    labels=(Label.VERSION, Label.REASON),
)
PREPARE_WAITING = Metric(
    name="penstock_prepare_items_waiting",
    kind=MetricKind.GAUGE,
    help="Inputs that wait for one of the worker's preprocessing threads.",
    labels=(Label.VERSION,),
)
PREPARE_WAIT_SECONDS = Metric(
    name="penstock_prepare_wait_seconds",
    kind=MetricKind.HISTOGRAM,
    help="Time that an input waits for one of the worker's preprocessing threads.",
    labels=(Label.VERSION,),
    buckets=LATENCY_S,
)
PREPARE_SECONDS = Metric(
    name="penstock_prepare_seconds",
    kind=MetricKind.HISTOGRAM,
    help="Preprocessing time of an input on the CPU: decoding, scaling, tokenising.",
    labels=(Label.VERSION,),
    buckets=LATENCY_S,
)
