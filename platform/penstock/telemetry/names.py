"""The catalogue of every metric and label that the platform exports.

Dashboards, alerts, autoscaling and tests read it; no other module spells a metric's name. Labels are bounded: closed
enums, registered names, or the top N tenants and ``other``.
"""

from penstock.telemetry.accounting_names import *  # noqa: F403
from penstock.telemetry.batching_names import *  # noqa: F403
from penstock.telemetry.control_names import *  # noqa: F403
from penstock.telemetry.definitions import LATENCY_S, PHASE_S, WAIT_S, Label, Metric, counter, gauge, histogram
from penstock.telemetry.gen_ai_names import *  # noqa: F403
from penstock.telemetry.job_names import *  # noqa: F403
from penstock.telemetry.promise_names import *  # noqa: F403
from penstock.telemetry.safety_names import *  # noqa: F403
from penstock.telemetry.version_names import *  # noqa: F403

# -- gateway -----------------------------------------------------------------------
REQUESTS = counter(
    "penstock_requests",
    "Finished requests by outcome; each outcome is exported from a tenant's first request on.",
    (Label.API, Label.MODEL, Label.TENANT, Label.OUTCOME),
)
REFUSALS = counter(
    "penstock_refusals",
    "Requests answered with an error, by code; each code is exported from the start.",
    (Label.CODE,),
)
NO_WORKER = counter(
    "penstock_no_worker",
    "Requests held or refused because no worker of their version, or of their adapter's base, served.",
    (Label.VERSION,),
)
EARLY_REFUSALS = counter(
    "penstock_early_refusals",
    "Requests refused, or dropped by their client, before their body was read, by tenant and outcome.",
    (Label.TENANT, Label.OUTCOME),
)
IN_FLIGHT = gauge(
    "penstock_requests_in_flight", "Requests that are admitted and not yet settled (billed).", (Label.MODEL,)
)
STAGE_SECONDS = histogram(
    "penstock_stage_seconds", "Time a request spent in each stage.", (Label.STAGE, Label.MODEL), buckets=LATENCY_S
)
REQUEST_SECONDS = histogram(
    "penstock_request_seconds",
    "Time from the arrival of the whole request to the last byte, of served requests.",
    (Label.API, Label.MODEL, Label.TIER),
    buckets=LATENCY_S,
)
PROMPT_TOKENS = counter("penstock_prompt_tokens", "Prompt tokens of settled requests.", (Label.MODEL, Label.TENANT))
CACHED_TOKENS = counter(
    "penstock_cached_tokens", "Prompt tokens that the engine found in its prefix cache.", (Label.MODEL, Label.TENANT)
)
OUTPUT_TOKENS = counter("penstock_output_tokens", "Output tokens of settled requests.", (Label.MODEL, Label.TENANT))
VERSION_TOKENS = counter(
    "penstock_version_tokens",
    "Prompt and output tokens of settled requests, by the version whose workers served them: an adapter's base.",
    (Label.VERSION, Label.TENANT),
)
RETRIES = counter("penstock_retries", "Requests retried at another worker, by reason.", (Label.REASON,))
CONTINUATIONS = counter(
    "penstock_stream_continuations",
    "Streams whose worker was lost after their first token, by outcome (continued, failed, refused) and reason.",
    (Label.OUTCOME, Label.REASON),
)
EJECTIONS = counter(
    "penstock_ejections",
    "Times that a gateway stopped sending to a worker because its circuit breaker opened.",
    (Label.VERSION,),
)
SUSPICIONS = counter(
    "penstock_worker_suspicions",
    "Failed attempts by reason, and whether they count against the worker or the caller (ADR 0043).",
    (Label.REASON, Label.STATE),
)
PROBES = counter(
    "penstock_worker_probes",
    "The platform's own probes of workers, by reason and finding.",
    (Label.REASON, Label.OUTCOME),
)
DEGRADED = counter(
    "penstock_degraded",
    "Requests degraded instead of refused, by the kind of degradation and the model that served.",
    (Label.MODEL, Label.REASON),
)
PRESSURE = gauge(
    "penstock_version_pressure",
    "1 while a gateway finds a version overloaded: tenants that opted in get degraded answers.",
    (Label.VERSION,),
)
HELD_REQUESTS = gauge("penstock_held_requests", "Requests held at a gateway until a worker serves.")
HOLDS = counter(
    "penstock_holds",
    "Requests held until a worker serves, by their end: woken, late, left, full, displaced, away, crowded_out.",
    (Label.MODEL, Label.OUTCOME),
)
BREAKERS_OPEN = gauge(
    "penstock_breakers_open", "Open circuit breakers of a gateway, by level: worker, zone, version.", (Label.LEVEL,)
)
BREAKER_OPENED = gauge(
    "penstock_breaker_opened_timestamp_seconds",
    "Unix second at which an open circuit breaker opened, by its version and worker, or its zone; none if closed.",
    (Label.LEVEL, Label.VERSION, Label.WORKER, Label.ZONE),
)
BREAKER_CHANGES = counter(
    "penstock_breaker_changes",
    "Circuit breakers that opened or closed, by level: worker, zone, version.",
    (Label.LEVEL, Label.STATE),
)
HEARTBEATS = counter("penstock_stream_heartbeats", "Heartbeat comments sent on silent streams.")
PREFIX_ROUTED = counter(
    "penstock_prefix_blocks",
    "Prompt blocks routed, by whether the chosen worker probably has them in its prefix cache.",
    (Label.MODEL, Label.STATE),
)
TABLE_NUMBER = gauge("penstock_routing_table_number", "Number of the routing table in use.")
TABLE_AGE_SECONDS = gauge(
    "penstock_routing_table_age_seconds", "Seconds since the routing table in use was last confirmed as the newest."
)
TABLES_REFUSED = counter("penstock_routing_tables_refused", "Routing tables refused as invalid.")
BACKGROUND_FAILURES = counter(
    "penstock_background_failures",
    "Failures of a gateway's background tasks, by task; a failed loop is restarted.",
    (Label.TASK,),
)
LOOP_LAG_SECONDS = histogram("penstock_loop_lag_seconds", "How late the event loop's timers fire.", buckets=LATENCY_S)
IDEMPOTENT_REQUESTS = counter(
    "penstock_idempotent_requests",
    "Requests with an idempotency key: first, replayed, joined one in flight, or conflicting with another body.",
    (Label.STATE,),
)
KEPT_RESPONSES = counter(
    "penstock_kept_responses",
    "Answers of the Responses API that were to be stored: kept, failed, or full by the tenant's plan.",
    (Label.STATE,),
)
TENANT_WEIGHT = gauge(
    "penstock_tenant_weight",
    "A tenant's weight in fair queueing, as of its last request; `other` has the last tenant's.",
    (Label.TENANT,),
)
BILLED_DOLLARS = counter(
    "penstock_billed_dollars", "Cost of settled requests to their tenants, in US dollars.", (Label.MODEL, Label.TENANT)
)
LOOP_SECONDS = counter(
    "penstock_loop_seconds",
    "Time of the event loop's thread: computing, or starved (ready to compute, without a core).",
    (Label.STATE,),
)
READER_PAUSED_SECONDS = counter(
    "penstock_reader_paused_seconds", "Time for which answers were paused because their clients did not read them."
)
TENANT_QUEUE_SECONDS = histogram(
    "penstock_tenant_queue_seconds", "Wait of a tenant's requests in workers' queues.", (Label.TENANT,), buckets=WAIT_S
)

RECORDS_LOST = counter(
    "penstock_records_lost",
    "Request records that could not be written to the gateway's disk; `penstock explain` lacks them.",
)

# -- worker ------------------------------------------------------------------------
WORKER_STATE = gauge("penstock_worker_state", "1 for the state the worker is in.", (Label.VERSION, Label.STATE))
PHASE_SECONDS = histogram(
    "penstock_worker_phase_seconds",
    "Time spent in each phase of a worker's start.",
    (Label.VERSION, Label.PHASE),
    buckets=PHASE_S,
)
ENGINE_RESTARTS = counter(
    "penstock_engine_restarts", "Engine restarts by cause: crash, hang, out_of_memory.", (Label.VERSION, Label.REASON)
)
PROBE_SECONDS = histogram(
    "penstock_engine_probe_seconds",
    "Duration of the engine's health probe, which generates one token.",
    (Label.VERSION,),
    buckets=LATENCY_S,
)
QUEUED_TOKENS = gauge(
    "penstock_queued_tokens",
    "Tokens that the worker's accepted requests are still expected to compute.",
    (Label.VERSION,),
)
ENGINE_RUNNING = gauge("penstock_engine_running_requests", "Requests in the engine's batch.", (Label.VERSION,))
ENGINE_WAITING = gauge(
    "penstock_engine_waiting_requests", "Requests waiting inside the engine; normally few.", (Label.VERSION,)
)
KV_USED_RATIO = gauge("penstock_kv_used_ratio", "Share of KV blocks in use.", (Label.VERSION,))
PREFIX_QUERIED_TOKENS = counter(
    "penstock_prefix_queried_tokens", "Prompt tokens looked up in the engine's prefix cache.", (Label.VERSION,)
)
PREFIX_HIT_TOKENS = counter(
    "penstock_prefix_hit_tokens",
    "Prompt tokens found in the engine's prefix cache, by tier: device, host (offloaded).",
    (Label.VERSION, Label.TIER),
)
PREEMPTIONS = counter(
    "penstock_engine_preemptions", "Running requests that the engine preempted for lack of KV blocks.", (Label.VERSION,)
)
ABORTS = counter(
    "penstock_engine_aborts", "Requests aborted in the engine because their client has left.", (Label.VERSION,)
)
TOKENS_AFTER_DISCONNECT = counter(
    "penstock_tokens_after_disconnect", "Tokens that the engine produced after the client had left.", (Label.VERSION,)
)
GATE_REFUSALS = counter(
    "penstock_gate_refusals",
    "Requests refused by the worker's gate, by reason: draining, forged ticket, late.",
    (Label.VERSION, Label.REASON),
)
DOOR_WAITING = gauge(
    "penstock_door_waiting_requests",
    "Requests in the worker's queue, waiting for a slot in the engine.",
    (Label.VERSION,),
)
DOOR_SHED = counter(
    "penstock_door_shed",
    "Requests refused by a worker's queue: late, overloaded, tenant_queue, tenant_kv, evicted, draining, adapter.",
    (Label.VERSION, Label.STANDING, Label.REASON),
)
DOOR_SATURATION = gauge(
    "penstock_door_saturation",
    "Used share of the engine's slots or of its KV blocks, the larger one, as the queue counts; 1 is full.",
    (Label.VERSION,),
)
DOOR_STANDING_BACK = gauge(
    "penstock_door_standing_back",
    "1 while a flooding tenant's next prompt is delayed for a tenant expected back; averaged, the share of time.",
    (Label.VERSION,),
)
DOOR_BATCH_SLOTS = gauge(
    "penstock_door_batch_slots",
    "Slots that batch work may hold, by what bounds them: ttft, itl, autoscaler; the least holds.",
    (Label.VERSION, Label.REASON),
)
GATE_SECONDS = histogram(
    "penstock_gate_seconds",
    "Time of a request at the worker: in its queue, in prefill until the first bytes, in decode after them.",
    (Label.VERSION, Label.STAGE),
    buckets=LATENCY_S,
)
TTFT_ERROR_RATIO = histogram(
    "penstock_ttft_error_ratio",
    "Relative error of the worker's predicted time to first token, queue and prefill; 0.1 is 10 %.",
    (Label.VERSION,),
    buckets=(0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 2.0, 5.0),
)
WORKER_INFO = gauge(
    "penstock_worker_info",
    "Always 1; the labels name the worker, version and zone of these metrics.",
    (Label.VERSION, Label.WORKER, Label.ZONE),
)
WORKER_DEVICES = gauge(
    "penstock_worker_devices",
    "Devices that the worker's engine computes on: GPUs, or its CPU as one.",
    (Label.VERSION, Label.DEVICE),
)
ENGINE_SLOTS = gauge("penstock_engine_slots", "Size of the engine's batch, in sequences.", (Label.VERSION,))
ENGINE_STEPS = counter(
    "penstock_engine_steps",
    "Steps of the engine: each computes one token of every running request, or a piece of a prompt.",
    (Label.VERSION,),
)
ENGINE_STEP_TOKENS = counter(
    "penstock_engine_step_tokens", "Tokens computed by the engine's steps, of prompts and of answers.", (Label.VERSION,)
)

CATALOGUE: tuple[Metric, ...] = tuple(value for value in list(vars().values()) if isinstance(value, Metric))
