"""Workers and their engines: life, batch, KV cache, prefix cache, steps."""

from dashboards.layout import Board, Row
from dashboards.panels import lines, number, parts
from dashboards.queries import gauge, increase, mean, quantile, query, rate, ratio, series
from penstock.telemetry import names

NOW = Row(
    title="Now",
    panels=(
        number("Ready workers", "They take requests.", "short", query(gauge(names.WORKERS, state="ready"), "ready")),
        number(
            "Others",
            "Workers on their way in or out, or failed.",
            "short",
            query(gauge(names.WORKERS, state="[^r].*"), "not ready"),
        ),
        number(
            "Zones",
            "In which workers run.",
            "short",
            query(f"count(count by (zone) ({series(names.WORKER_INFO)}))", "zones"),
        ),
        number(
            "Fullest KV cache",
            "Share of blocks in use of the fullest engine; without free ones running requests are put back.",
            "percentunit",
            query(gauge(names.KV_USED_RATIO, take="max"), "used"),
            steps=((None, "green"), (0.8, "orange"), (0.95, "red")),
        ),
    ),
)

LIFE = Row(
    title="Life",
    panels=(
        parts(
            "States",
            "Workers by state, as the controller sees them.",
            "short",
            query(gauge(names.WORKERS, "state"), "{{state}}"),
        ),
        lines(
            "Wanted and ready",
            "What was deployed, and what takes requests.",
            "short",
            query(gauge(names.WORKERS_WANTED, "version"), "{{version}} wanted"),
            query(gauge(names.WORKERS, "version", state="ready"), "{{version}} ready"),
        ),
        lines(
            "State by worker",
            "What each says of itself: 1 for the state that it is in.",
            "short",
            query(f"{gauge(names.WORKER_STATE, 'instance', 'state', take='max')} == 1", "{{instance}} {{state}}"),
        ),
        lines(
            "Phases of a start",
            "Mean seconds of each phase, over six hours: where a cold start spends its time.",
            "s",
            query(mean(names.PHASE_SECONDS, "phase", window="6h"), "{{phase}}"),
        ),
    ),
)

POOL = Row(
    title="Pool",
    panels=(
        lines(
            "Memory for engines",
            "Share held by awake versions, by their manifests; 1 is full. Empty without a pool.",
            "percentunit",
            query(
                f"{gauge(names.POOL_HELD_BYTES, take='max')} / ({gauge(names.POOL_LIMIT_BYTES, take='max')} > 0)",
                "held",
            ),
        ),
        lines(
            "Put to sleep",
            "Workers in five minutes, by for what: held requests, pins and rollouts, new workers, too small a pool.",
            "short",
            query(increase(names.POOL_SWAPS, "reason", window="5m"), "{{reason}}"),
        ),
        lines(
            "Wakes",
            "95th percentile of the seconds from the order to proven answers, and how long the longest wait lasts.",
            "s",
            query(quantile(0.95, names.WAKE_SECONDS, "version", window="1h"), "{{version}}"),
            query(gauge(names.POOL_WAIT_SECONDS, take="max"), "longest wait"),
        ),
        lines(
            "Wakes that went wrong",
            "In an hour: failed ones are started anew, slow ones took three times as long as the one before.",
            "short",
            query(increase(names.WAKE_FAILURES, "version", "reason", window="1h"), "{{version}} {{reason}}"),
        ),
    ),
)

TROUBLE = Row(
    title="Restarts and ends",
    panels=(
        lines(
            "Engine restarts",
            "In ten minutes, by cause: crash, hang, out of memory.",
            "short",
            query(increase(names.ENGINE_RESTARTS, "version", "reason", window="10m"), "{{version}} {{reason}}"),
        ),
        lines(
            "Heartbeat",
            "Time of the one-token question to the engine: a wedged one shows here first.",
            "s",
            query(quantile(0.95, names.PROBE_SECONDS, "instance", window="5m"), "{{instance}}"),
        ),
        lines(
            "Why workers go",
            "In an hour, as they said themselves: drained, a notice, wrong answers, refused, gave up, a fault.",
            "short",
            query(increase(names.WORKER_ENDS, "version", "reason", window="1h"), "{{version}} {{reason}}"),
        ),
        lines(
            "Lost last",
            "Seconds since a version's worker went silent, gave up or failed, by name.",
            "s",
            query(
                f"time() - {gauge(names.WORKER_LOST, 'version', 'worker', 'reason', take='max')}",
                "{{worker}} {{reason}}",
            ),
        ),
    ),
)

BATCH = Row(
    title="Batch",
    panels=(
        lines(
            "Running",
            "Requests in each engine's batch.",
            "short",
            query(gauge(names.ENGINE_RUNNING, "instance"), "{{instance}}"),
        ),
        lines(
            "Waiting at the door",
            "Requests that wait for a seat, or for KV blocks while seats are free.",
            "short",
            query(gauge(names.DOOR_WAITING, "instance"), "{{instance}}"),
        ),
        lines(
            "Waiting inside",
            "In the engine's own queue, behind its door. It stays shallow: order and bounds are the door's.",
            "short",
            query(gauge(names.ENGINE_WAITING, "instance"), "{{instance}}"),
        ),
        lines(
            "Queued tokens",
            "Tokens of work taken and not yet done.",
            "short",
            query(gauge(names.QUEUED_TOKENS, "instance"), "{{instance}}"),
        ),
    ),
)

MEMORY = Row(
    title="KV and prefix cache",
    panels=(
        lines(
            "KV blocks in use",
            "Share of each engine's blocks.",
            "percentunit",
            query(gauge(names.KV_USED_RATIO, "instance", take="max"), "{{instance}}"),
        ),
        lines(
            "Preemptions",
            "Running requests that an engine put back for lack of blocks: work that is done twice.",
            "ops",
            query(rate(names.PREEMPTIONS, "instance"), "{{instance}}"),
        ),
        lines(
            "Prefix cache hits",
            "Share of prompt tokens that the engine had already.",
            "percentunit",
            query(
                ratio(rate(names.PREFIX_HIT_TOKENS, "instance"), rate(names.PREFIX_QUERIED_TOKENS, "instance")),
                "{{instance}}",
            ),
        ),
        lines(
            "Routed by prefix",
            "Prompt blocks a second by whether the chosen worker probably holds them.",
            "ops",
            query(rate(names.PREFIX_ROUTED, "state"), "{{state}}"),
        ),
    ),
)

STEPS = Row(
    title="Steps",
    panels=(
        lines(
            "Steps",
            "Of each engine, a second: the pace of every stream in it.",
            "ops",
            query(rate(names.ENGINE_STEPS, "instance"), "{{instance}}"),
        ),
        lines(
            "Tokens a step",
            "How full steps are: few tokens while requests wait mean a batch that is too small.",
            "short",
            query(
                ratio(rate(names.ENGINE_STEP_TOKENS, "instance"), rate(names.ENGINE_STEPS, "instance")), "{{instance}}"
            ),
        ),
        lines(
            "Prefill and decode",
            "A request's time in the engine: until its first bytes, and after them.",
            "s",
            query(quantile(0.95, names.GATE_SECONDS, stage="prefill"), "prefill p95"),
            query(quantile(0.95, names.GATE_SECONDS, stage="decode"), "decode p95"),
        ),
        lines(
            "Lost work",
            "Requests aborted because their client had left, and tokens made after that.",
            "ops",
            query(rate(names.ABORTS), "aborted requests"),
            query(rate(names.TOKENS_AFTER_DISCONNECT), "tokens after disconnect"),
        ),
    ),
)

ADAPTERS = Row(
    title="Adapters",
    panels=(
        lines(
            "In memory",
            "Adapters that each engine holds and that were found right.",
            "short",
            query(gauge(names.ADAPTERS_RESIDENT, "instance"), "{{instance}}"),
        ),
        lines(
            "Waited for",
            "Adapters that requests at the door wait for: to be loaded, or for a slot of the batch.",
            "short",
            query(gauge(names.ADAPTERS_WAITING, "instance"), "{{instance}}"),
        ),
        lines(
            "Loads and evictions",
            "In five minutes, loads by how they ended; many of both while requests wait are a storm.",
            "short",
            query(increase(names.ADAPTER_LOADS, "outcome", window="5m"), "{{outcome}}"),
            query(increase(names.ADAPTER_EVICTIONS, window="5m"), "evicted"),
            query(increase(names.ADAPTER_SWAPS, window="5m"), "slots given"),
        ),
        lines(
            "A load takes",
            "From being wanted to ready, golden prompts included: what the first caller waits.",
            "s",
            query(quantile(0.95, names.ADAPTER_LOAD_SECONDS, window="5m"), "p95"),
        ),
    ),
)

BOARD = Board(
    title="Workers",
    says="Do engines live, and what limits them: batch, KV cache, or steps?",
    rows=(NOW, LIFE, POOL, TROUBLE, BATCH, MEMORY, STEPS, ADAPTERS),
)
