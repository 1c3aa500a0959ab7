"""The catalogue: every metric and label the platform exports, and nothing else.

Dashboards, alerts, autoscaling and tests read it; no other module spells a metric's name.
Labels are bounded: closed enums, registered names, or tenants as top N and ``other``.
"""

from penstock.telemetry.definitions import ITL_S, LATENCY_S, PHASE_S, Kind, Label, Metric

# -- gateway -----------------------------------------------------------------------
REQUESTS = Metric(
    name="penstock_requests",
    kind=Kind.COUNTER,
    help="Finished requests by how they ended.",
    labels=(Label.API, Label.MODEL, Label.TENANT, Label.OUTCOME),
)
REFUSALS = Metric(
    name="penstock_refusals",
    kind=Kind.COUNTER,
    help="Requests answered with an error, by its code in the published table.",
    labels=(Label.CODE,),
)
IN_FLIGHT = Metric(
    name="penstock_requests_in_flight",
    kind=Kind.GAUGE,
    help="Requests between admission and settlement.",
    labels=(Label.MODEL,),
)
STAGE_SECONDS = Metric(
    name="penstock_stage_seconds",
    kind=Kind.HISTOGRAM,
    help="Time a request spent in each stage.",
    labels=(Label.STAGE, Label.MODEL),
    buckets=LATENCY_S,
)
REQUEST_SECONDS = Metric(
    name="penstock_request_seconds",
    kind=Kind.HISTOGRAM,
    help="Arrival to last byte.",
    labels=(Label.API, Label.MODEL),
    buckets=LATENCY_S,
)
TTFT_SECONDS = Metric(
    name="penstock_ttft_seconds",
    kind=Kind.HISTOGRAM,
    help="Arrival to first token of streams.",
    labels=(Label.MODEL, Label.TIER),
    buckets=LATENCY_S,
)
ITL_SECONDS = Metric(
    name="penstock_itl_seconds",
    kind=Kind.HISTOGRAM,
    help="Time between tokens of a stream, as the gateway sees them.",
    labels=(Label.MODEL, Label.TIER),
    buckets=ITL_S,
)
PROMPT_TOKENS = Metric(
    name="penstock_prompt_tokens",
    kind=Kind.COUNTER,
    help="Prompt tokens of settled requests.",
    labels=(Label.MODEL, Label.TENANT),
)
CACHED_TOKENS = Metric(
    name="penstock_cached_tokens",
    kind=Kind.COUNTER,
    help="Prompt tokens that the engine found in its prefix cache.",
    labels=(Label.MODEL, Label.TENANT),
)
OUTPUT_TOKENS = Metric(
    name="penstock_output_tokens",
    kind=Kind.COUNTER,
    help="Output tokens of settled requests.",
    labels=(Label.MODEL, Label.TENANT),
)
RETRIES = Metric(
    name="penstock_retries",
    kind=Kind.COUNTER,
    help="Requests sent to another worker, by why the first one did not take them.",
    labels=(Label.REASON,),
)
CONTINUATIONS = Metric(
    name="penstock_stream_continuations",
    kind=Kind.COUNTER,
    help="Streams whose worker was lost after a token: continued by another, failed to, or refused (reason: why).",
    labels=(Label.OUTCOME, Label.REASON),
)
EJECTIONS = Metric(
    name="penstock_ejections",
    kind=Kind.COUNTER,
    help="Times a gateway stopped sending to a worker, on the evidence of its own probes or of several tenants.",
    labels=(Label.VERSION,),
)
SUSPICIONS = Metric(
    name="penstock_worker_suspicions",
    kind=Kind.COUNTER,
    help="Failed attempts by what they say of the worker, held against it, or charged to the caller (ADR 0043).",
    labels=(Label.REASON, Label.STATE),
)
PROBES = Metric(
    name="penstock_worker_probes",
    kind=Kind.COUNTER,
    help="The platform's own questions to workers, by why they were asked and what they found.",
    labels=(Label.REASON, Label.OUTCOME),
)
DEGRADED = Metric(
    name="penstock_degraded",
    kind=Kind.COUNTER,
    help="Requests that were degraded instead of refused, by what their answer lacks and the model that served.",
    labels=(Label.MODEL, Label.REASON),
)
PRESSURE = Metric(
    name="penstock_version_pressure",
    kind=Kind.GAUGE,
    help="1 while a gateway sees a version under pressure: opted-in tenants get degraded answers.",
    labels=(Label.VERSION,),
)
BREAKERS_OPEN = Metric(
    name="penstock_breakers_open",
    kind=Kind.GAUGE,
    help="Workers, zones and versions that a gateway leaves alone, by level.",
    labels=(Label.LEVEL,),
)
BREAKER_CHANGES = Metric(
    name="penstock_breaker_changes",
    kind=Kind.COUNTER,
    help="Circuits that opened or closed, by level.",
    labels=(Label.LEVEL, Label.STATE),
)
HEARTBEATS = Metric(
    name="penstock_stream_heartbeats",
    kind=Kind.COUNTER,
    help="Comments sent to waiting streams.",
)
PREFIX_ROUTED = Metric(
    name="penstock_prefix_blocks",
    kind=Kind.COUNTER,
    help="Prompt blocks routed, by whether the chosen worker probably holds them.",
    labels=(Label.MODEL, Label.STATE),
)
TABLE_NUMBER = Metric(
    name="penstock_routing_table_number",
    kind=Kind.GAUGE,
    help="The routing table in use.",
)
TABLE_AGE_SECONDS = Metric(
    name="penstock_routing_table_age_seconds",
    kind=Kind.GAUGE,
    help="Seconds since the source last confirmed the table in use.",
)
TABLES_REFUSED = Metric(
    name="penstock_routing_tables_refused",
    kind=Kind.COUNTER,
    help="Routing tables that were not valid and not used.",
)
BACKGROUND_FAILURES = Metric(
    name="penstock_background_failures",
    kind=Kind.COUNTER,
    help="Background tasks of a gateway that failed, by name; those that run on begin again.",
    labels=(Label.TASK,),
)
LOOP_LAG_SECONDS = Metric(
    name="penstock_loop_lag_seconds",
    kind=Kind.HISTOGRAM,
    help="How late the event loop runs its timers.",
    buckets=LATENCY_S,
)
LIMITS_REACH = Metric(
    name="penstock_limits_reach",
    kind=Kind.GAUGE,
    help="1 for who decides on limits: shared (the store), alone (this gateway's part), returning (both).",
    labels=(Label.STATE,),
)
LIMITS_GATEWAYS = Metric(
    name="penstock_limits_gateways",
    kind=Kind.GAUGE,
    help="Gateways that share the limits, as this one knows: alone it gives one part of so many.",
)
LIMITS_ALONE = Metric(
    name="penstock_limits_alone",
    kind=Kind.COUNTER,
    help="Decisions without the shared store, by what became of the limit: closed, share, open.",
    labels=(Label.REASON,),
)
LEDGER_DELIVERED_AT = Metric(
    name="penstock_ledger_delivered_timestamp_seconds",
    kind=Kind.GAUGE,
    help="When this gateway last brought all rows of ended requests to the ledger, in Unix seconds.",
)
LEDGER_ROWS_REFUSED = Metric(
    name="penstock_ledger_rows_refused",
    kind=Kind.COUNTER,
    help="Rows that the ledger refused for what they say; they are set aside in the spool folder.",
)
USAGE_DIFFERS = Metric(
    name="penstock_usage_differs",
    kind=Kind.COUNTER,
    help="Answers whose engine told another usage than its gate had counted; the gate's count is billed.",
    labels=(Label.API,),
)
EMPTY_BILLS = Metric(
    name="penstock_empty_bills",
    kind=Kind.COUNTER,
    help="Answers that came to their end and were billed no token at all.",
    labels=(Label.API,),
)
GUESSED_BILLS = Metric(
    name="penstock_guessed_bills",
    kind=Kind.COUNTER,
    help="Requests whose worker could not be asked what they took: billed is the most that the gateway knows.",
    labels=(Label.OUTCOME,),
)
CAPPED_BILLS = Metric(
    name="penstock_capped_bills",
    kind=Kind.COUNTER,
    help="Requests whose worker told more tokens than they could take; billed is the most that they could.",
    labels=(Label.API,),
)
IDEMPOTENT_REQUESTS = Metric(
    name="penstock_idempotent_requests",
    kind=Kind.COUNTER,
    help="Requests with an idempotency key: first, replayed, joined one in flight, or conflicting with another body.",
    labels=(Label.STATE,),
)

# -- worker ------------------------------------------------------------------------
WORKER_STATE = Metric(
    name="penstock_worker_state",
    kind=Kind.GAUGE,
    help="1 for the state the worker is in.",
    labels=(Label.VERSION, Label.STATE),
)
PHASE_SECONDS = Metric(
    name="penstock_worker_phase_seconds",
    kind=Kind.HISTOGRAM,
    help="Time spent in each phase of a worker's start.",
    labels=(Label.VERSION, Label.PHASE),
    buckets=PHASE_S,
)
ENGINE_RESTARTS = Metric(
    name="penstock_engine_restarts",
    kind=Kind.COUNTER,
    help="Engine restarts by cause: crash, hang, out_of_memory.",
    labels=(Label.VERSION, Label.REASON),
)
PROBE_SECONDS = Metric(
    name="penstock_engine_probe_seconds",
    kind=Kind.HISTOGRAM,
    help="Time of the one-token heartbeat of the engine.",
    labels=(Label.VERSION,),
    buckets=LATENCY_S,
)
QUEUED_TOKENS = Metric(
    name="penstock_queued_tokens",
    kind=Kind.GAUGE,
    help="Tokens of work accepted by the worker and not yet done.",
    labels=(Label.VERSION,),
)
ENGINE_RUNNING = Metric(
    name="penstock_engine_running_requests",
    kind=Kind.GAUGE,
    help="Requests in the engine's batch.",
    labels=(Label.VERSION,),
)
ENGINE_WAITING = Metric(
    name="penstock_engine_waiting_requests",
    kind=Kind.GAUGE,
    help="Requests waiting inside the engine; stays shallow.",
    labels=(Label.VERSION,),
)
KV_USED_RATIO = Metric(
    name="penstock_kv_used_ratio",
    kind=Kind.GAUGE,
    help="Share of KV blocks in use.",
    labels=(Label.VERSION,),
)
PREFIX_QUERIED_TOKENS = Metric(
    name="penstock_prefix_queried_tokens",
    kind=Kind.COUNTER,
    help="Prompt tokens looked up in the engine's prefix cache.",
    labels=(Label.VERSION,),
)
PREFIX_HIT_TOKENS = Metric(
    name="penstock_prefix_hit_tokens",
    kind=Kind.COUNTER,
    help="Prompt tokens found in the engine's prefix cache.",
    labels=(Label.VERSION,),
)
PREEMPTIONS = Metric(
    name="penstock_engine_preemptions",
    kind=Kind.COUNTER,
    help="Running requests that the engine put back for lack of KV blocks.",
    labels=(Label.VERSION,),
)
ABORTS = Metric(
    name="penstock_engine_aborts",
    kind=Kind.COUNTER,
    help="Requests aborted in the engine because nobody waits for them any more.",
    labels=(Label.VERSION,),
)
TOKENS_AFTER_DISCONNECT = Metric(
    name="penstock_tokens_after_disconnect",
    kind=Kind.COUNTER,
    help="Tokens that the engine produced after the client had left.",
    labels=(Label.VERSION,),
)
GATE_REFUSALS = Metric(
    name="penstock_gate_refusals",
    kind=Kind.COUNTER,
    help="Requests that the worker's gate sent back: draining, forged ticket, late.",
    labels=(Label.VERSION, Label.REASON),
)
DOOR_WAITING = Metric(
    name="penstock_door_waiting_requests",
    kind=Kind.GAUGE,
    help="Requests waiting at the worker's door for a place in the engine.",
    labels=(Label.VERSION,),
)
DOOR_SHED = Metric(
    name="penstock_door_shed",
    kind=Kind.COUNTER,
    help="Requests that the door sent away, by standing and why: late, overloaded, evicted, draining.",
    labels=(Label.VERSION, Label.STANDING, Label.REASON),
)
DOOR_SATURATION = Metric(
    name="penstock_door_saturation",
    kind=Kind.GAUGE,
    help="How full the engine is by the door's count, slots or KV blocks; 1 means full.",
    labels=(Label.VERSION,),
)
DOOR_STANDING_BACK = Metric(
    name="penstock_door_standing_back",
    kind=Kind.GAUGE,
    help="1 while a flood's next prompt waits for a tenant that is expected any moment; on average the share of time.",
    labels=(Label.VERSION,),
)
GATE_SECONDS = Metric(
    name="penstock_gate_seconds",
    kind=Kind.HISTOGRAM,
    help="Time of a request at the worker: queue at its door, prefill until its first bytes, decode after them.",
    labels=(Label.VERSION, Label.STAGE),
    buckets=LATENCY_S,
)

# -- controller --------------------------------------------------------------------
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
TABLES_PUBLISHED = Metric(
    name="penstock_routing_tables_published",
    kind=Kind.COUNTER,
    help="Routing tables published.",
)
BUDGET_USED_RATIO = Metric(
    name="penstock_budget_used_ratio",
    kind=Kind.GAUGE,
    help="Share of a budget that is spent: the fullest fifty by scope, the fullest of all others as other.",
    labels=(Label.SCOPE, Label.WINDOW),
)

CATALOGUE: tuple[Metric, ...] = tuple(value for value in list(vars().values()) if isinstance(value, Metric))
