"""Metrics of the controller, its pool, certificates and audit chain; part of the catalogue in ``names.py``."""

from penstock.telemetry.definitions import LATENCY_S, Label, counter, gauge, histogram

WAKE_S = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 64.0)
TICK_SECONDS = histogram(
    "penstock_control_tick_seconds", "Duration of one tick of the controller's loop.", buckets=LATENCY_S
)
TICK_FAILURES = counter(
    "penstock_control_tick_failures", "Ticks of the controller's loop that failed and changed nothing."
)
IS_LEADER = gauge("penstock_control_leader", "1 in the controller that leads.")
RESTARTS = counter(
    "penstock_restarts",
    "Processes of one machine that its supervisor has started again, by process and cause: died, hung.",
    (Label.PROCESS, Label.REASON),
)
DATABASE_UP = gauge("penstock_database_up", "1 if the database answered this process's last query, 0 if not.")
WORKERS = gauge(
    "penstock_workers", "Workers by version and state, as the controller sees them.", (Label.VERSION, Label.STATE)
)
WORKERS_WANTED = gauge(
    "penstock_workers_wanted",
    "Workers that operators deployed, by version; in a cluster the minimum.",
    (Label.VERSION,),
)
SCALE_WISH_WORKERS = gauge(
    "penstock_scale_wish_workers",
    "Workers that an autoscaled version's demand asks for, with fractions, before its bounds apply.",
    (Label.VERSION,),
)
SCALE_WORKERS = gauge(
    "penstock_scale_workers",
    "Target number of workers of an autoscaled version, without cordoned and sleeping ones.",
    (Label.VERSION,),
)
SCALE_REPLICAS = gauge(
    "penstock_scale_replicas", "Replicas that the leading controller tells KEDA for a ScaledObject.", (Label.OBJECT,)
)
SCALE_CORDONED = gauge(
    "penstock_scale_cordoned_workers", "Workers that get no new requests and end once they are idle.", (Label.VERSION,)
)
SCALE_DOLLARS_PER_HOUR = gauge(
    "penstock_scale_dollars_per_hour",
    "Price per hour of an autoscaled version's workers; absent if no price is known.",
    (Label.VERSION,),
)
SCALE_IDLE_GPU_SECONDS = counter(
    "penstock_scale_idle_gpu_seconds",
    "Seconds of scaled versions' idle GPUs: floor, override, headroom, slow_in, unmeasured, warm_pool.",
    (Label.VERSION, Label.REASON),
)
SCALE_OVERRIDE_ENDS_AT = gauge(
    "penstock_scale_override_ends_timestamp_seconds",
    "Unix second at which an operator's override of a worker count ends; absent without an override.",
    (Label.VERSION,),
)
SCALE_CHANGES = counter(
    "penstock_scale_changes",
    "Changes of a version's number of workers: scale_out, scale_in, take_back (draining workers kept after all).",
    (Label.VERSION, Label.REASON),
)
DEMAND_SILENT_GATEWAYS = gauge(
    "penstock_demand_silent_gateways",
    "Gateways that reported demand before and no longer do: while there are any, nothing scales in.",
)
WORKER_ENDS = counter(
    "penstock_worker_ends",
    "Workers that ended, by reason: drained, notice, wrong_answers, refused, gave_up, fault, lost (went silent).",
    (Label.VERSION, Label.REASON),
)
WORKER_LOST = gauge(
    "penstock_worker_lost_timestamp_seconds",
    "Unix second of a version's last lost worker and its name, by reason: lost (went silent), fault, gave_up.",
    (Label.VERSION, Label.WORKER, Label.REASON),
)
TABLES_PUBLISHED = counter("penstock_routing_tables_published", "Routing tables published.")
ROLLOUTS = gauge(
    "penstock_rollouts",
    "1 for the state of an alias's rollout: running, held or frozen; absent without a rollout.",
    (Label.MODEL, Label.STATE),
)
ROLLOUT_SHARE_RATIO = gauge(
    "penstock_rollout_share_ratio",
    "The candidate's weight in its alias, from 0 to 1; its share of tokens may differ.",
    (Label.MODEL,),
)
JUDGE_UNFIT = gauge(
    "penstock_rollout_judge_unfit",
    "1 if the incumbent's own workers differ by more than the tolerance, so that latency is not judged.",
    (Label.MODEL,),
)
ROLLOUT_UNDO_PROPOSED = gauge(
    "penstock_rollout_undo_proposed",
    "1 if automation would undo a promotion that a person made; it only proposes that.",
    (Label.MODEL,),
)
ROLLOUT_ENDS = counter(
    "penstock_rollout_ends", "Rollouts that ended, by alias and how: done or aborted.", (Label.MODEL, Label.STATE)
)
BUDGET_USED_RATIO = gauge(
    "penstock_budget_used_ratio",
    "Spent share of a budget, for the fifty fullest by scope; `other` is the fullest of the rest.",
    (Label.SCOPE, Label.WINDOW),
)

# -- every process that speaks TLS --------------------------------------------------
CERTIFICATE_STARTS_AT = gauge(
    "penstock_certificate_starts_timestamp_seconds",
    "Start of this process's certificate's validity, in Unix seconds.",
    (Label.ROLE,),
)
CERTIFICATE_ENDS_AT = gauge(
    "penstock_certificate_ends_timestamp_seconds", "End of the certificate's validity, in Unix seconds.", (Label.ROLE,)
)
POOL_LIMIT_BYTES = gauge(
    "penstock_pool_limit_bytes",
    "Size of the memory pool for engines; 0 without a pool, and in controllers that do not lead.",
)
POOL_HELD_BYTES = gauge(
    "penstock_pool_held_bytes", "Bytes of the pool held by awake and waking workers, by their manifests."
)
POOL_SWAPS = counter(
    "penstock_pool_swaps",
    "Workers put to sleep to free memory, by cause: requests_held, never_sleeps, workers_missing, pool_bytes.",
    (Label.REASON,),
)
POOL_WAIT_SECONDS = gauge(
    "penstock_pool_wait_seconds", "Longest current wait for a sleeping version, in seconds; 0 if none is waited for."
)
WAKE_SECONDS = histogram(
    "penstock_wake_seconds",
    "Time from the wake order to a worker that has answered its golden prompts.",
    (Label.VERSION,),
    buckets=WAKE_S,
)
WAKE_FAILURES = counter(
    "penstock_wake_failures",
    "Wakes that failed, or were slow: over three times the previous wake plus 5 s.",
    (Label.VERSION, Label.REASON),
)


AUDIT_LINKS = counter("penstock_audit_links", "Acts that the audit chain has linked.")
AUDIT_CHAIN_LAG_SECONDS = gauge(
    "penstock_audit_chain_lag_seconds", "Seconds for which the oldest act has waited for its link in the audit chain."
)
AUDIT_UNSHIPPED_SEGMENTS = gauge(
    "penstock_audit_unshipped_segments", "Signed segments of the audit chain that the audit bucket does not have yet."
)
