"""Metrics of classic models' batches; part of the catalogue in ``names.py``."""

from penstock.telemetry.definitions import LATENCY_S, Kind, Label, Metric

_SIZES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)
_RATIOS = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)

BATCHES = Metric(
    name="penstock_batches",
    kind=Kind.COUNTER,
    help="Batches by why they started: size, budget, deadline, wait, idle.",
    labels=(Label.VERSION, Label.TRIGGER),
)
BATCH_ITEMS = Metric(
    name="penstock_batch_items",
    kind=Kind.HISTOGRAM,
    help="Items of a batch.",
    labels=(Label.VERSION,),
    buckets=_SIZES,
)
BATCH_FILL_RATIO = Metric(
    name="penstock_batch_fill_ratio",
    kind=Kind.HISTOGRAM,
    help="Items of a batch against those that it has room for.",
    labels=(Label.VERSION,),
    buckets=_RATIOS,
)
BATCH_PADDING_RATIO = Metric(
    name="penstock_batch_padding_ratio",
    kind=Kind.HISTOGRAM,
    help="The part of a batch's tokens or pixels that is padding: computed for nobody, charged to nobody.",
    labels=(Label.VERSION,),
    buckets=_RATIOS,
)
BATCH_WAIT_SECONDS = Metric(
    name="penstock_batch_wait_seconds",
    kind=Kind.HISTOGRAM,
    help="Time of an item from the door until its batch starts.",
    labels=(Label.VERSION,),
    buckets=LATENCY_S,
)
BATCH_COMPUTE_SECONDS = Metric(
    name="penstock_batch_compute_seconds",
    kind=Kind.HISTOGRAM,
    help="Time of a batch on the device.",
    labels=(Label.VERSION,),
    buckets=LATENCY_S,
)
BATCH_WINDOW_SECONDS = Metric(
    name="penstock_batch_window_seconds",
    kind=Kind.GAUGE,
    help="How long an item may wait for the last batch's size: the promise less the p99 of compute and a margin.",
    labels=(Label.VERSION,),
)
BATCH_PREDICTED_SECONDS = Metric(
    name="penstock_batch_predicted_seconds",
    kind=Kind.GAUGE,
    help="The p99 of compute as it was predicted for the last batch.",
    labels=(Label.VERSION,),
)
BATCHES_BEYOND_PREDICTED = Metric(
    name="penstock_batches_beyond_predicted",
    kind=Kind.COUNTER,
    help="Batches that took longer than the p99 that was predicted for them.",
    labels=(Label.VERSION,),
)
BATCH_LEFT = Metric(
    name="penstock_batch_items_left",
    kind=Kind.COUNTER,
    help="Items that left without a result, by why: cancelled, expired, late, poisoned, quarantined, lost and others.",
    labels=(Label.VERSION, Label.REASON),
)
PREPARE_WAITING = Metric(
    name="penstock_prepare_items_waiting",
    kind=Kind.GAUGE,
    help="Inputs that wait for a thread of the CPU tier.",
    labels=(Label.VERSION,),
)
PREPARE_WAIT_SECONDS = Metric(
    name="penstock_prepare_wait_seconds",
    kind=Kind.HISTOGRAM,
    help="Time of an input until it has a thread of the CPU tier.",
    labels=(Label.VERSION,),
    buckets=LATENCY_S,
)
PREPARE_SECONDS = Metric(
    name="penstock_prepare_seconds",
    kind=Kind.HISTOGRAM,
    help="Time that an input holds a thread of the CPU tier: decoding, scaling, tokenising.",
    labels=(Label.VERSION,),
    buckets=LATENCY_S,
)
