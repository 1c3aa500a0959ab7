"""The catalogue's part of the pool that versions sleep and wake in; read it from ``names.py``, where all of it is."""

from penstock.telemetry.definitions import Kind, Label, Metric

WAKE_S = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 64.0)

POOL_LIMIT_BYTES = Metric(
    name="penstock_pool_limit_bytes",
    kind=Kind.GAUGE,
    help="Memory for engines: weights, KV cache and adapters' slots; 0 where there is no pool, or another one leads.",
)
POOL_HELD_BYTES = Metric(
    name="penstock_pool_held_bytes",
    kind=Kind.GAUGE,
    help="What workers hold of it, by their manifests, that are awake or on their way.",
)
POOL_SWAPS = Metric(
    name="penstock_pool_swaps",
    kind=Kind.COUNTER,
    help="Workers put to sleep, by for what: requests_held, never_sleeps, workers_missing, pool_bytes.",
    labels=(Label.REASON,),
)
POOL_WAIT_SECONDS = Metric(
    name="penstock_pool_wait_seconds",
    kind=Kind.GAUGE,
    help="For how long the version has been waited for that waits longest; 0 where nobody waits.",
)
WAKE_SECONDS = Metric(
    name="penstock_wake_seconds",
    kind=Kind.HISTOGRAM,
    help="From the order to wake to a worker that has answered its golden prompts.",
    labels=(Label.VERSION,),
    buckets=WAKE_S,
)
WAKE_FAILURES = Metric(
    name="penstock_wake_failures",
    kind=Kind.COUNTER,
    help="Wakes that went wrong: failed, or slow, which is three times as long as the one before and 5 s more.",
    labels=(Label.VERSION, Label.REASON),
)
