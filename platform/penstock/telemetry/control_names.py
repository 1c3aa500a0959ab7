"""Metrics of the controller, its pool and certificates; part of the catalogue in ``names.py``."""

from penstock.telemetry.definitions import LATENCY_S, Label, Metric, MetricKind

WAKE_S = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 64.0)
TICK_SECONDS = Metric(
    name="penstock_control_tick_seconds",
    kind=MetricKind.HISTOGRAM,
    help="Duration of one tick of the controller's loop.",
    buckets=LATENCY_S,
)
TICK_FAILURES = Metric(
    name="penstock_control_tick_failures",
    kind=MetricKind.COUNTER,
    help="Ticks of the controller's loop that failed and changed nothing.",
)
IS_LEADER = Metric(name="penstock_control_leader", kind=MetricKind.GAUGE, help="1 in the controller that leads.")
RESTARTS = Metric(
    name="penstock_restarts",
    kind=MetricKind.COUNTER,
    help="Processes of one machine that its supervisor has started again, by process and cause: died, hung.",
    labels=(Label.PROCESS, Label.REASON),
)
DATABASE_UP = Metric(
    name="penstock_database_up",
    kind=MetricKind.GAUGE,
    help="1 if the database answered this process's last query, 0 if not.",
)
WORKERS = Metric(
    name="penstock_workers",
    kind=MetricKind.GAUGE,
    help="Workers by version and state, as the controller sees them.",
    labels=(Label.VERSION, Label.STATE),
)
WORKERS_WANTED = Metric(
    name="penstock_workers_wanted",
    kind=MetricKind.GAUGE,
    help="Workers that operators deployed, by version; in a cluster the minimum.",
    labels=(Label.VERSION,),
)
SCALE_WISH_WORKERS = Metric(
    name="penstock_scale_wish_workers",
    kind=MetricKind.GAUGE,
    help="Workers that an autoscaled version's demand asks for, with fractions, before its bounds apply.",
    labels=(Label.VERSION,),
)
SCALE_WORKERS = Metric(
    name="penstock_scale_workers",
    kind=MetricKind.GAUGE,
    help="Target number of workers of an autoscaled version, without cordoned and sleeping ones.",
    labels=(Label.VERSION,),
)
SCALE_REPLICAS = Metric(
    name="penstock_scale_replicas",
    kind=MetricKind.GAUGE,
    help="Replicas that the leading controller tells KEDA for a ScaledObject.",
    labels=(Label.OBJECT,),
)
SCALE_CORDONED = Metric(
    name="penstock_scale_cordoned_workers",
    kind=MetricKind.GAUGE,
    help="Workers that get no new requests and end once they are idle.",
    labels=(Label.VERSION,),
)
SCALE_DOLLARS_PER_HOUR = Metric(
    name="penstock_scale_dollars_per_hour",
    kind=MetricKind.GAUGE,
    help="Price per hour of an autoscaled version's workers; absent if no price is known.",
    labels=(Label.VERSION,),
)
SCALE_IDLE_GPU_SECONDS = Metric(
    name="penstock_scale_idle_gpu_seconds",
    kind=MetricKind.COUNTER,
    help="Seconds of scaled versions' idle GPUs: floor, override, headroom, slow_in, unmeasured, warm_pool.",
    labels=(Label.VERSION, Label.REASON),
)
SCALE_OVERRIDE_ENDS_AT = Metric(
    name="penstock_scale_override_ends_timestamp_seconds",
    kind=MetricKind.GAUGE,
    help="Unix second at which an operator's override of a worker count ends; absent without an override.",
    labels=(Label.VERSION,),
)
SCALE_CHANGES = Metric(
    name="penstock_scale_changes",
    kind=MetricKind.COUNTER,
    help="Changes of a version's number of workers: scale_out, scale_in, take_back (draining workers kept after all).",
    labels=(Label.VERSION, Label.REASON),
)
DEMAND_SILENT_GATEWAYS = Metric(
    name="penstock_demand_silent_gateways",
    kind=MetricKind.GAUGE,
    help="Gateways that reported demand before and no longer do: while there are any, nothing scales in.",
)
WORKER_ENDS = Metric(
    name="penstock_worker_ends",
    kind=MetricKind.COUNTER,
    help="Workers that ended, by reason: drained, notice, wrong_answers, refused, gave_up, fault, lost (went silent).",
    labels=(Label.VERSION, Label.REASON),
)
WORKER_LOST = Metric(
    name="penstock_worker_lost_timestamp_seconds",
    kind=MetricKind.GAUGE,
    help="Unix second of a version's last lost worker and its name, by reason: lost (went silent), fault, gave_up.",
    labels=(Label.VERSION, Label.WORKER, Label.REASON),
)
TABLES_PUBLISHED = Metric(
    name="penstock_routing_tables_published", kind=MetricKind.COUNTER, help="Routing tables published."
)
ROLLOUTS = Metric(
    name="penstock_rollouts",
    kind=MetricKind.GAUGE,
    help="1 for the state of an alias's rollout: running, held or frozen; absent without a rollout.",
    labels=(Label.MODEL, Label.STATE),
)
ROLLOUT_SHARE_RATIO = Metric(
    name="penstock_rollout_share_ratio",
    kind=MetricKind.GAUGE,
    help="The candidate's weight in its alias, from 0 to 1; its share of tokens may differ.",
    labels=(Label.MODEL,),
)
JUDGE_UNFIT = Metric(
    name="penstock_rollout_judge_unfit",
    kind=MetricKind.GAUGE,
    help="1 if the incumbent's own workers differ by more than the tolerance, so that latency is not judged.",
    labels=(Label.MODEL,),
)
ROLLOUT_UNDO_PROPOSED = Metric(
    name="penstock_rollout_undo_proposed",
    kind=MetricKind.GAUGE,
    help="1 if automation would undo a promotion that a person made; it only proposes that.",
    labels=(Label.MODEL,),
)
ROLLOUT_ENDS = Metric(
    name="penstock_rollout_ends",
    kind=MetricKind.COUNTER,
    help="Rollouts that ended, by alias and how: done or aborted.",
    labels=(Label.MODEL, Label.STATE),
)
BUDGET_USED_RATIO = Metric(
    name="penstock_budget_used_ratio",
    kind=MetricKind.GAUGE,
    help="Spent share of a budget, for the fifty fullest by scope; `other` is the fullest of the rest.",
    labels=(Label.SCOPE, Label.WINDOW),
)

# -- every process that speaks TLS --------------------------------------------------
CERTIFICATE_STARTS_AT = Metric(
    name="penstock_certificate_starts_timestamp_seconds",
    kind=MetricKind.GAUGE,
    help="Start of this process's certificate's validity, in Unix seconds.",
    labels=(Label.ROLE,),
)
CERTIFICATE_ENDS_AT = Metric(
    name="penstock_certificate_ends_timestamp_seconds",
    kind=MetricKind.GAUGE,
    help="End of the certificate's validity, in Unix seconds.",
    labels=(Label.ROLE,),
)
POOL_LIMIT_BYTES = Metric(
    name="penstock_pool_limit_bytes",
    kind=MetricKind.GAUGE,
    help="Size of the memory pool for engines; 0 without a pool, and in controllers that do not lead.",
)
POOL_HELD_BYTES = Metric(
    name="penstock_pool_held_bytes",
    kind=MetricKind.GAUGE,
    help="Bytes of the pool held by awake and waking workers, by their manifests.",
)
POOL_SWAPS = Metric(
    name="penstock_pool_swaps",
    kind=MetricKind.COUNTER,
    help="Workers put to sleep to free memory, by cause: requests_held, never_sleeps, workers_missing, pool_bytes.",
    labels=(Label.REASON,),
)
POOL_WAIT_SECONDS = Metric(
    name="penstock_pool_wait_seconds",
    kind=MetricKind.GAUGE,
    help="Longest current wait for a sleeping version, in seconds; 0 if none is waited for.",
)
WAKE_SECONDS = Metric(
    name="penstock_wake_seconds",
    kind=MetricKind.HISTOGRAM,
    help="Time from the wake order to a worker that has answered its golden prompts.",
    labels=(Label.VERSION,),
    buckets=WAKE_S,
)
WAKE_FAILURES = Metric(
    name="penstock_wake_failures",
    kind=MetricKind.COUNTER,
    help="Wakes that failed, or were slow: over three times the previous wake plus 5 s.",
    labels=(Label.VERSION, Label.REASON),
)
