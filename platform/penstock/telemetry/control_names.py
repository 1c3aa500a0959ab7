"""Metrics of the controller, its pool and certificates; part of the catalogue in ``names.py``."""

from penstock.telemetry.definitions import LATENCY_S, Kind, Label, Metric

WAKE_S = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 64.0)
TICK_SECONDS = Metric(
    name="penstock_control_tick_seconds",
    kind=Kind.HISTOGRAM,
    help="Time of one control tick.",
    buckets=LATENCY_S,
)
TICK_FAILURES = Metric(
    name="penstock_control_tick_failures",
    kind=Kind.COUNTER,
    help="Control ticks that failed and changed nothing.",
)
IS_LEADER = Metric(
    name="penstock_control_leader",
    kind=Kind.GAUGE,
    help="1 in the controller that acts.",
)
WORKERS = Metric(
    name="penstock_workers",
    kind=Kind.GAUGE,
    help="Workers by version and state, as the controller sees them.",
    labels=(Label.VERSION, Label.STATE),
)
WORKERS_WANTED = Metric(
    name="penstock_workers_wanted",
    kind=Kind.GAUGE,
    help="Workers that there should be, by version: what was deployed; in a cluster the least.",
    labels=(Label.VERSION,),
)
WORKER_ENDS = Metric(
    name="penstock_worker_ends",
    kind=Kind.COUNTER,
    help="Workers that went, by why: drained, notice, wrong_answers, refused, gave_up, fault; lost without a word.",
    labels=(Label.VERSION, Label.REASON),
)
TABLES_PUBLISHED = Metric(
    name="penstock_routing_tables_published",
    kind=Kind.COUNTER,
    help="Routing tables published.",
)
ROLLOUTS = Metric(
    name="penstock_rollouts",
    kind=Kind.GAUGE,
    help="1 in the state that an alias's rollout is in: running, held or frozen; nothing where there is none.",
    labels=(Label.MODEL, Label.STATE),
)
ROLLOUT_SHARE_RATIO = Metric(
    name="penstock_rollout_share_ratio",
    kind=Kind.GAUGE,
    help="The candidate's share of its alias by weight, from 0 to 1; what it touches in tokens may be another part.",
    labels=(Label.MODEL,),
)
JUDGE_UNFIT = Metric(
    name="penstock_rollout_judge_unfit",
    kind=Kind.GAUGE,
    help="1 where an alias's incumbent differs in itself by more than is tolerated, so that times judge nobody.",
    labels=(Label.MODEL,),
)
ROLLOUT_UNDO_PROPOSED = Metric(
    name="penstock_rollout_undo_proposed",
    kind=Kind.GAUGE,
    help="1 where the evidence speaks against a candidate that a person promoted, so that nothing is undone by itself.",
    labels=(Label.MODEL,),
)
ROLLOUT_ENDS = Metric(
    name="penstock_rollout_ends",
    kind=Kind.COUNTER,
    help="Rollouts that ended, by alias and how: done or aborted.",
    labels=(Label.MODEL, Label.STATE),
)
BUDGET_USED_RATIO = Metric(
    name="penstock_budget_used_ratio",
    kind=Kind.GAUGE,
    help="Share of a budget that is spent: the fullest fifty by scope, the fullest of all others as other.",
    labels=(Label.SCOPE, Label.WINDOW),
)

# -- every process that speaks TLS --------------------------------------------------
CERTIFICATE_STARTS_AT = Metric(
    name="penstock_certificate_starts_timestamp_seconds",
    kind=Kind.GAUGE,
    help="From when on the certificate of this process is valid, in Unix seconds.",
    labels=(Label.ROLE,),
)
CERTIFICATE_ENDS_AT = Metric(
    name="penstock_certificate_ends_timestamp_seconds",
    kind=Kind.GAUGE,
    help="Until when it is valid, in Unix seconds.",
    labels=(Label.ROLE,),
)
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
