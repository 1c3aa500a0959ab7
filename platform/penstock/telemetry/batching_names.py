"""Metrics of classic models' batches; part of the catalogue in ``names.py``."""

from penstock.telemetry.definitions import LATENCY_S, Label, counter, gauge, histogram

_SIZES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)
_RATIOS = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)

BATCHES = counter(
    "penstock_batches",
    "Batches by what started them: size, budget (of tokens, pixels, seconds), deadline, wait, idle (device).",
    (Label.VERSION, Label.TRIGGER),
)
BATCH_ITEMS = histogram("penstock_batch_items", "Items of a batch.", (Label.VERSION,), buckets=_SIZES)
BATCH_FILL_RATIO = histogram(
    "penstock_batch_fill_ratio", "Items in a batch as a share of its capacity.", (Label.VERSION,), buckets=_RATIOS
)
BATCH_PADDING_RATIO = histogram(
    "penstock_batch_padding_ratio",
    "Share of a batch's tokens or pixels that is padding; it is charged to no tenant.",
    (Label.VERSION,),
    buckets=_RATIOS,
)
BATCH_WAIT_SECONDS = histogram(
    "penstock_batch_wait_seconds",
    "Time from an item's admission until its batch starts.",
    (Label.VERSION,),
    buckets=LATENCY_S,
)
BATCH_COMPUTE_SECONDS = histogram(
    "penstock_batch_compute_seconds", "Time of a batch on the device.", (Label.VERSION,), buckets=LATENCY_S
)
BATCH_WINDOW_SECONDS = gauge(
    "penstock_batch_window_seconds",
    "Longest time that an item may wait, at the last batch's size: the SLO less the p99 of compute and a margin.",
    (Label.VERSION,),
)
BATCH_PREDICTED_SECONDS = gauge(
    "penstock_batch_predicted_seconds", "Predicted p99 of the last batch's compute time.", (Label.VERSION,)
)
BATCHES_BEYOND_PREDICTED = counter(
    "penstock_batches_beyond_predicted", "Batches that took longer than their predicted p99.", (Label.VERSION,)
)
BATCH_LEFT = counter(
    "penstock_batch_items_left",
    "Items dropped without a result, by reason: cancelled, expired, late, poisoned, quarantined, lost and others.",
    (Label.VERSION, Label.REASON),
)
PREPARE_WAITING = gauge(
    "penstock_prepare_items_waiting",
    "Inputs that wait for one of the worker's preprocessing threads.",
    (Label.VERSION,),
)
PREPARE_WAIT_SECONDS = histogram(
    "penstock_prepare_wait_seconds",
    "Time that an input waits for one of the worker's preprocessing threads.",
    (Label.VERSION,),
    buckets=LATENCY_S,
)
PREPARE_SECONDS = histogram(
    "penstock_prepare_seconds",
    "Preprocessing time of an input on the CPU: decoding, scaling, tokenising.",
    (Label.VERSION,),
    buckets=LATENCY_S,
)
