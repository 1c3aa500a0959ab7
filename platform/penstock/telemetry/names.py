"""The catalogue of every metric and label that the platform exports.

Dashboards, alerts, autoscaling and tests read it; no other module spells a metric's name. Labels are bounded: closed
enums, registered names, or the top N tenants and ``other``.
"""

from penstock.telemetry.accounting_names import *  # noqa: F403
from penstock.telemetry.adapter_names import *  # noqa: F403
from penstock.telemetry.batching_names import *  # noqa: F403
from penstock.telemetry.control_names import *  # noqa: F403
from penstock.telemetry.definitions import LATENCY_S, PHASE_S, WAIT_S, Label, Metric, MetricKind
from penstock.telemetry.gen_ai_names import *  # noqa: F403
from penstock.telemetry.promise_names import *  # noqa: F403
from penstock.telemetry.rollout_names import *  # noqa: F403

# -- gateway -----------------------------------------------------------------------
REQUESTS = Metric(
    name="penstock_requests",
    kind=MetricKind.COUNTER,
    help="Finished requests by outcome; each outcome is exported from a tenant's first request on.",
    labels=(Label.API, Label.MODEL, Label.TENANT, Label.OUTCOME),
)
REFUSALS = Metric(
    name="penstock_refusals",
    kind=MetricKind.COUNTER,
    help="Requests answered with an error, by code; each code is exported from the start.",
    labels=(Label.CODE,),
)
NO_WORKER = Metric(
    name="penstock_no_worker",
    kind=MetricKind.COUNTER,
    help="Requests held or refused because no worker of their version, or of their adapter's base, served.",
    labels=(Label.VERSION,),
)
EARLY_REFUSALS = Metric(
    name="penstock_early_refusals",
    kind=MetricKind.COUNTER,
    help="Requests refused, or dropped by their client, before their body was read, by tenant and outcome.",
    labels=(Label.TENANT, Label.OUTCOME),
)
IN_FLIGHT = Metric(
    name="penstock_requests_in_flight",
    kind=MetricKind.GAUGE,
    help="Requests that are admitted and not yet settled (billed).",
    labels=(Label.MODEL,),
)
STAGE_SECONDS = Metric(
    name="penstock_stage_seconds",
    kind=MetricKind.HISTOGRAM,
    help="Time a request spent in each stage.",
    labels=(Label.STAGE, Label.MODEL),
    buckets=LATENCY_S,
)
REQUEST_SECONDS = Metric(
    name="penstock_request_seconds",
    kind=MetricKind.HISTOGRAM,
    help="Time from the arrival of the whole request to the last byte, of served requests.",
    labels=(Label.API, Label.MODEL, Label.TIER),
    buckets=LATENCY_S,
)
PROMPT_TOKENS = Metric(
    name="penstock_prompt_tokens",
    kind=MetricKind.COUNTER,
    help="Prompt tokens of settled requests.",
    labels=(Label.MODEL, Label.TENANT),
)
CACHED_TOKENS = Metric(
    name="penstock_cached_tokens",
    kind=MetricKind.COUNTER,
    help="Prompt tokens that the engine found in its prefix cache.",
    labels=(Label.MODEL, Label.TENANT),
)
OUTPUT_TOKENS = Metric(
    name="penstock_output_tokens",
    kind=MetricKind.COUNTER,
    help="Output tokens of settled requests.",
    labels=(Label.MODEL, Label.TENANT),
)
VERSION_TOKENS = Metric(
    name="penstock_version_tokens",
    kind=MetricKind.COUNTER,
    help="Prompt and output tokens of settled requests, by the version whose workers served them: an adapter's base.",
    labels=(Label.VERSION, Label.TENANT),
)
RETRIES = Metric(
    name="penstock_retries",
    kind=MetricKind.COUNTER,
    help="Requests retried at another worker, by reason.",
    labels=(Label.REASON,),
)
CONTINUATIONS = Metric(
    name="penstock_stream_continuations",
    kind=MetricKind.COUNTER,
    help="Streams whose worker was lost after their first token, by outcome (continued, failed, refused) and reason.",
    labels=(Label.OUTCOME, Label.REASON),
)
EJECTIONS = Metric(
    name="penstock_ejections",
    kind=MetricKind.COUNTER,
    help="Times that a gateway stopped sending to a worker because its circuit breaker opened.",
    labels=(Label.VERSION,),
)
SUSPICIONS = Metric(
    name="penstock_worker_suspicions",
    kind=MetricKind.COUNTER,
    help="Failed attempts by reason, and whether they count against the worker or the caller (ADR 0043).",
    labels=(Label.REASON, Label.STATE),
)
PROBES = Metric(
    name="penstock_worker_probes",
    kind=MetricKind.COUNTER,
    help="The platform's own probes of workers, by reason and finding.",
    labels=(Label.REASON, Label.OUTCOME),
)
DEGRADED = Metric(
    name="penstock_degraded",
    kind=MetricKind.COUNTER,
    help="Requests degraded instead of refused, by the kind of degradation and the model that served.",
    labels=(Label.MODEL, Label.REASON),
)
PRESSURE = Metric(
    name="penstock_version_pressure",
    kind=MetricKind.GAUGE,
    help="1 while a gateway finds a version overloaded: tenants that opted in get degraded answers.",
    labels=(Label.VERSION,),
)
HELD_REQUESTS = Metric(
    name="penstock_held_requests", kind=MetricKind.GAUGE, help="Requests held at a gateway until a worker serves."
)
HOLDS = Metric(
    name="penstock_holds",
    kind=MetricKind.COUNTER,
    help="Requests held until a worker serves, by their end: woken, late, left, full, displaced, away, crowded_out.",
    labels=(Label.MODEL, Label.OUTCOME),
)
BREAKERS_OPEN = Metric(
    name="penstock_breakers_open",
    kind=MetricKind.GAUGE,
    help="Open circuit breakers of a gateway, by level: worker, zone, version.",
    labels=(Label.LEVEL,),
)
BREAKER_OPENED = Metric(
    name="penstock_breaker_opened_timestamp_seconds",
    kind=MetricKind.GAUGE,
    help="Unix second at which an open circuit breaker opened, by its version and worker, or its zone; none if closed.",
    labels=(Label.LEVEL, Label.VERSION, Label.WORKER, Label.ZONE),
)
BREAKER_CHANGES = Metric(
    name="penstock_breaker_changes",
    kind=MetricKind.COUNTER,
    help="Circuit breakers that opened or closed, by level: worker, zone, version.",
    labels=(Label.LEVEL, Label.STATE),
)
HEARTBEATS = Metric(
    name="penstock_stream_heartbeats", kind=MetricKind.COUNTER, help="Heartbeat comments sent on silent streams."
)
PREFIX_ROUTED = Metric(
    name="penstock_prefix_blocks",
    kind=MetricKind.COUNTER,
    help="Prompt blocks routed, by whether the chosen worker probably has them in its prefix cache.",
    labels=(Label.MODEL, Label.STATE),
)
TABLE_NUMBER = Metric(
    name="penstock_routing_table_number", kind=MetricKind.GAUGE, help="Number of the routing table in use."
)
TABLE_AGE_SECONDS = Metric(
    name="penstock_routing_table_age_seconds",
    kind=MetricKind.GAUGE,
    help="Seconds since the routing table in use was last confirmed as the newest.",
)
TABLES_REFUSED = Metric(
    name="penstock_routing_tables_refused", kind=MetricKind.COUNTER, help="Routing tables refused as invalid."
)
BACKGROUND_FAILURES = Metric(
    name="penstock_background_failures",
    kind=MetricKind.COUNTER,
    help="Failures of a gateway's background tasks, by task; a failed loop is restarted.",
    labels=(Label.TASK,),
)
LOOP_LAG_SECONDS = Metric(
    name="penstock_loop_lag_seconds",
    kind=MetricKind.HISTOGRAM,
    help="How late the event loop's timers fire.",
    buckets=LATENCY_S,
)
IDEMPOTENT_REQUESTS = Metric(
    name="penstock_idempotent_requests",
    kind=MetricKind.COUNTER,
    help="Requests with an idempotency key: first, replayed, joined one in flight, or conflicting with another body.",
    labels=(Label.STATE,),
)
TENANT_WEIGHT = Metric(
    name="penstock_tenant_weight",
    kind=MetricKind.GAUGE,
    help="A tenant's weight in fair queueing, as of its last request; `other` has the last tenant's.",
    labels=(Label.TENANT,),
)
BILLED_DOLLARS = Metric(
    name="penstock_billed_dollars",
    kind=MetricKind.COUNTER,
    help="Cost of settled requests to their tenants, in US dollars.",
    labels=(Label.MODEL, Label.TENANT),
)
LOOP_SECONDS = Metric(
    name="penstock_loop_seconds",
    kind=MetricKind.COUNTER,
    help="Time of the event loop's thread: computing, or starved (ready to compute, without a core).",
    labels=(Label.STATE,),
)
READER_PAUSED_SECONDS = Metric(
    name="penstock_reader_paused_seconds",
    kind=MetricKind.COUNTER,
    help="Time for which answers were paused because their clients did not read them.",
)
TENANT_QUEUE_SECONDS = Metric(
    name="penstock_tenant_queue_seconds",
    kind=MetricKind.HISTOGRAM,
    help="Wait of a tenant's requests in workers' queues.",
    labels=(Label.TENANT,),
    buckets=WAIT_S,
)

RECORDS_LOST = Metric(
    name="penstock_records_lost",
    kind=MetricKind.COUNTER,
    help="Request records that could not be written to the gateway's disk; `penstock explain` lacks them.",
)

# -- worker ------------------------------------------------------------------------
WORKER_STATE = Metric(
    name="penstock_worker_state",
    kind=MetricKind.GAUGE,
    help="1 for the state the worker is in.",
    labels=(Label.VERSION, Label.STATE),
)
PHASE_SECONDS = Metric(
    name="penstock_worker_phase_seconds",
    kind=MetricKind.HISTOGRAM,
    help="Time spent in each phase of a worker's start.",
    labels=(Label.VERSION, Label.PHASE),
    buckets=PHASE_S,
)
ENGINE_RESTARTS = Metric(
    name="penstock_engine_restarts",
    kind=MetricKind.COUNTER,
    help="Engine restarts by cause: crash, hang, out_of_memory.",
    labels=(Label.VERSION, Label.REASON),
)
PROBE_SECONDS = Metric(
    name="penstock_engine_probe_seconds",
    kind=MetricKind.HISTOGRAM,
    help="Duration of the engine's health probe, which generates one token.",
    labels=(Label.VERSION,),
    buckets=LATENCY_S,
)
QUEUED_TOKENS = Metric(
    name="penstock_queued_tokens",
    kind=MetricKind.GAUGE,
    help="Tokens that the worker's accepted requests are still expected to compute.",
    labels=(Label.VERSION,),
)
ENGINE_RUNNING = Metric(
    name="penstock_engine_running_requests",
    kind=MetricKind.GAUGE,
    help="Requests in the engine's batch.",
    labels=(Label.VERSION,),
)
ENGINE_WAITING = Metric(
    name="penstock_engine_waiting_requests",
    kind=MetricKind.GAUGE,
    help="Requests waiting inside the engine; normally few.",
    labels=(Label.VERSION,),
)
KV_USED_RATIO = Metric(
    name="penstock_kv_used_ratio", kind=MetricKind.GAUGE, help="Share of KV blocks in use.", labels=(Label.VERSION,)
)
PREFIX_QUERIED_TOKENS = Metric(
    name="penstock_prefix_queried_tokens",
    kind=MetricKind.COUNTER,
    help="Prompt tokens looked up in the engine's prefix cache.",
    labels=(Label.VERSION,),
)
PREFIX_HIT_TOKENS = Metric(
    name="penstock_prefix_hit_tokens",
    kind=MetricKind.COUNTER,
    help="Prompt tokens found in the engine's prefix cache, by tier: device, host (offloaded).",
    labels=(Label.VERSION, Label.TIER),
)
PREEMPTIONS = Metric(
    name="penstock_engine_preemptions",
    kind=MetricKind.COUNTER,
    help="Running requests that the engine preempted for lack of KV blocks.",
    labels=(Label.VERSION,),
)
ABORTS = Metric(
    name="penstock_engine_aborts",
    kind=MetricKind.COUNTER,
    help="Requests aborted in the engine because their client has left.",
    labels=(Label.VERSION,),
)
TOKENS_AFTER_DISCONNECT = Metric(
    name="penstock_tokens_after_disconnect",
    kind=MetricKind.COUNTER,
    help="Tokens that the engine produced after the client had left.",
    labels=(Label.VERSION,),
)
GATE_REFUSALS = Metric(
    name="penstock_gate_refusals",
    kind=MetricKind.COUNTER,
    help="Requests refused by the worker's gate, by reason: draining, forged ticket, late.",
    labels=(Label.VERSION, Label.REASON),
)
DOOR_WAITING = Metric(
    name="penstock_door_waiting_requests",
    kind=MetricKind.GAUGE,
    help="Requests in the worker's queue, waiting for a slot in the engine.",
    labels=(Label.VERSION,),
)
DOOR_SHED = Metric(
    name="penstock_door_shed",
    kind=MetricKind.COUNTER,
    help="Requests refused by a worker's queue: late, overloaded, tenant_queue, tenant_kv, evicted, draining, adapter.",
    labels=(Label.VERSION, Label.STANDING, Label.REASON),
)
DOOR_SATURATION = Metric(
    name="penstock_door_saturation",
    kind=MetricKind.GAUGE,
    help="Used share of the engine's slots or of its KV blocks, the larger one, as the queue counts; 1 is full.",
    labels=(Label.VERSION,),
)
DOOR_STANDING_BACK = Metric(
    name="penstock_door_standing_back",
    kind=MetricKind.GAUGE,
    help="1 while a flooding tenant's next prompt is delayed for a tenant expected back; averaged, the share of time.",
    labels=(Label.VERSION,),
)
GATE_SECONDS = Metric(
    name="penstock_gate_seconds",
    kind=MetricKind.HISTOGRAM,
    help="Time of a request at the worker: in its queue, in prefill until the first bytes, in decode after them.",
    labels=(Label.VERSION, Label.STAGE),
    buckets=LATENCY_S,
)
TTFT_ERROR_RATIO = Metric(
    name="penstock_ttft_error_ratio",
    kind=MetricKind.HISTOGRAM,
    help="Relative error of the worker's predicted time to first token, queue and prefill; 0.1 is 10 %.",
    labels=(Label.VERSION,),
    buckets=(0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 2.0, 5.0),
)
WORKER_INFO = Metric(
    name="penstock_worker_info",
    kind=MetricKind.GAUGE,
    help="Always 1; the labels name the worker, version and zone of these metrics.",
    labels=(Label.VERSION, Label.WORKER, Label.ZONE),
)
WORKER_DEVICES = Metric(
    name="penstock_worker_devices",
    kind=MetricKind.GAUGE,
    help="Devices that the worker's engine computes on: GPUs, or its CPU as one.",
    labels=(Label.VERSION, Label.DEVICE),
)
ENGINE_SLOTS = Metric(
    name="penstock_engine_slots",
    kind=MetricKind.GAUGE,
    help="Size of the engine's batch, in sequences.",
    labels=(Label.VERSION,),
)
ENGINE_STEPS = Metric(
    name="penstock_engine_steps",
    kind=MetricKind.COUNTER,
    help="Steps of the engine: each computes one token of every running request, or a piece of a prompt.",
    labels=(Label.VERSION,),
)
ENGINE_STEP_TOKENS = Metric(
    name="penstock_engine_step_tokens",
    kind=MetricKind.COUNTER,
    help="Tokens computed by the engine's steps, of prompts and of answers.",
    labels=(Label.VERSION,),
)

CATALOGUE: tuple[Metric, ...] = tuple(value for value in list(vars().values()) if isinstance(value, Metric))
