"""The evidence that `penstock diagnose` judges, side by side: which part is the bottleneck, and which are not."""

from dashboards.layout import Board, Row
from dashboards.panels import lines, parts
from dashboards.queries import gauge, increase, mean, quantile, query, rate, series
from penstock.domain.outcome import Stage
from penstock.telemetry import names

TIME = Row(
    title="Where the time goes",
    panels=(
        parts(
            "Mean request by stage",
            "Seconds of a mean request. The widest band is where to look; the others are ruled out.",
            "s",
            *(query(mean(names.STAGE_SECONDS, stage=stage), stage) for stage in Stage),
        ),
        lines(
            "First token and the gaps",
            "A good first token and bad gaps: prompts of others hold up the steps. Both bad: the engine is full.",
            "s",
            query(quantile(0.95, names.TTFT_SECONDS, "tier"), "{{tier}} first token p95"),
            query(quantile(0.95, names.ITL_SECONDS, "tier"), "{{tier}} gap p95"),
        ),
        lines(
            "At the worker",
            "Queue long: add workers; only where the GPUs idle beside it is the batch too small.",
            "s",
            query(quantile(0.95, names.GATE_SECONDS, "stage"), "{{stage}} p95"),
        ),
    ),
)

ENGINES = Row(
    title="Engines: full, short of memory, or waiting for work",
    panels=(
        lines(
            "Highest saturation",
            "Sequences or KV blocks booked, by version. Above 100 % an engine makes room for another tenant.",
            "percentunit",
            query(gauge(names.DOOR_SATURATION, "version", take="max"), "{{version}}"),
        ),
        lines(
            "KV blocks in use",
            "By version.",
            "percentunit",
            query(gauge(names.KV_USED_RATIO, "version", take="max"), "{{version}}"),
        ),
        lines(
            "Preemptions",
            "Requests put back, a second: short of KV blocks.",
            "ops",
            query(rate(names.PREEMPTIONS, "version"), "{{version}}"),
        ),
        lines(
            "Cold starts",
            "Workers on their way to ready, by state.",
            "short",
            query(gauge(names.WORKERS, "state", state="fetching|verifying|loading|compiling|warming"), "{{state}}"),
        ),
    ),
)

GATEWAYS = Row(
    title="Gateways: their loop, their stores, their readers",
    panels=(
        lines(
            "Event loop's lag",
            "How late timers run, p99: a gateway that has more to do than one core can.",
            "s",
            query(quantile(0.99, names.LOOP_LAG_SECONDS, "instance"), "{{instance}}"),
        ),
        lines(
            "Admission",
            "Mean seconds: with a shared store, its round trip.",
            "s",
            query(mean(names.STAGE_SECONDS, "instance", stage=Stage.ADMISSION), "{{instance}}"),
        ),
        lines(
            "Slow readers and leavers",
            "Requests a second whose client took too little or left; heartbeats keep silent streams open.",
            "reqps",
            query(rate(names.REQUESTS, "outcome", outcome="slow_reader|cancelled"), "{{outcome}}"),
            query(rate(names.HEARTBEATS), "heartbeats"),
        ),
        lines(
            "Background failures",
            "In ten minutes, by task, and records of requests that a disk did not take.",
            "short",
            query(increase(names.BACKGROUND_FAILURES, "task", window="10m"), "{{task}}"),
            query(increase(names.RECORDS_LOST, window="10m"), "records lost"),
        ),
    ),
)

WORKERS = Row(
    title="Workers that fail: one of them, one version, or one zone",
    panels=(
        lines(
            "Left alone",
            "Workers, zones and versions that gateways leave alone, by level.",
            "short",
            query(gauge(names.BREAKERS_OPEN, "level", take="max"), "{{level}}"),
        ),
        lines(
            "Open since",
            "Seconds for which each open circuit is open, by version and worker, or zone.",
            "s",
            query(
                f"time() - {gauge(names.BREAKER_OPENED, 'level', 'version', 'worker', 'zone', take='min')}",
                "{{level}} {{version}} {{worker}} {{zone}}",
            ),
        ),
        lines(
            "Circuits",
            "Opened or closed, a second.",
            "ops",
            query(rate(names.BREAKER_CHANGES, "level", "state"), "{{level}} {{state}}"),
        ),
        lines(
            "Failed attempts",
            "By what they say of the worker, held against it or charged to the caller (ADR 0043).",
            "ops",
            query(rate(names.SUSPICIONS, "reason", "state"), "{{reason}} {{state}}"),
            query(rate(names.EJECTIONS, "version"), "{{version}} ejected"),
        ),
        lines(
            "Probes",
            "The platform's own questions to workers in doubt, by why and what they found.",
            "ops",
            query(rate(names.PROBES, "reason", "outcome"), "{{reason}} {{outcome}}"),
        ),
        lines(
            "Fallbacks",
            "Requests served by an alias's fallback, since their version could take none; by model.",
            "reqps",
            query(rate(names.FALLBACKS, "model"), "{{model}}"),
        ),
        lines(
            "Shadow copies",
            "What candidates are asked unseen, by how it ended, and answered requests that were not copied, by why.",
            "reqps",
            query(rate(names.SHADOW_COPIES, "outcome"), "{{outcome}}"),
            query(rate(names.SHADOW_LEFT_OUT, "reason"), "not copied: {{reason}}"),
        ),
        lines(
            "Rules",
            "Requests for names that stand for rules, by the rule that decided; _none: a 400, since none fits.",
            "reqps",
            query(rate(names.AUTO_CHOICES, "rule"), "{{rule}}"),
        ),
    ),
)

TOLD_APART = Row(
    title="What tells causes apart that look alike",
    panels=(
        lines(
            "Event loop's time",
            "Share of the time in which it computes, or would and has no core (starved): near 1 it is the bottleneck.",
            "percentunit",
            query(rate(names.LOOP_SECONDS, "instance", "state"), "{{instance}} {{state}}"),
        ),
        lines(
            "Waiting for readers",
            "Streams that wait for their readers, on average: their gaps are not the engine's.",
            "short",
            query(rate(names.READER_PAUSED_SECONDS), "paused"),
        ),
        lines(
            "Wait by tenant",
            "Mean seconds in the queue: other tenants that wait as long as the busiest are starved.",
            "s",
            query(mean(names.TENANT_QUEUE_SECONDS, "tenant"), "{{tenant}}"),
        ),
        lines(
            "First token by zone",
            "Mean seconds, by the zone of the worker.",
            "s",
            query(mean(names.ZONE_TTFT_SECONDS, "zone"), "{{zone}}"),
        ),
        lines(
            "Token gap by zone",
            "Mean seconds between tokens, by the zone of the worker.",
            "s",
            query(mean(names.ZONE_ITL_SECONDS, "zone"), "{{zone}}"),
        ),
        lines(
            "Slots and workers",
            "Slots of the batches by version, and workers by zone.",
            "short",
            query(gauge(names.ENGINE_SLOTS, "version"), "{{version}} slots"),
            query(gauge(names.WORKER_INFO, "zone"), "{{zone}} workers"),
        ),
    ),
)

LEFT = (
    f"({series(names.CERTIFICATE_ENDS_AT)} - time()) / ({series(names.CERTIFICATE_ENDS_AT)}"
    f" - {series(names.CERTIFICATE_STARTS_AT)})"
)

CONTROL = Row(
    title="Controller and routing table",
    panels=(
        lines(
            "Age of the table",
            "Seconds since its source last confirmed the table that a gateway uses.",
            "s",
            query(gauge(names.TABLE_AGE_SECONDS, "instance", take="max"), "{{instance}}"),
        ),
        lines(
            "Table in use",
            "Its number: gateways that differ for long serve different worlds.",
            "none",
            query(gauge(names.TABLE_NUMBER, "instance", take="max"), "{{instance}}"),
        ),
        lines(
            "Tables",
            "Published by the controller, and refused by gateways, in ten minutes.",
            "short",
            query(increase(names.TABLES_PUBLISHED, window="10m"), "published"),
            query(increase(names.TABLES_REFUSED, window="10m"), "refused"),
        ),
        lines(
            "Ticks",
            "Seconds of a tick, p95, and those that failed in ten minutes.",
            "s",
            query(quantile(0.95, names.TICK_SECONDS), "tick p95"),
        ),
        lines(
            "Leaders and failed ticks",
            "One controller leads, always; a failed tick changes nothing.",
            "short",
            query(gauge(names.IS_LEADER), "leaders"),
            query(increase(names.TICK_FAILURES, window="10m"), "failed ticks"),
        ),
        lines(
            "Database",
            "1 if it answers, by who asks: the supervisor of one machine, and the controller.",
            "none",
            query(gauge(names.DATABASE_UP, "instance", take="min"), "{{instance}}"),
        ),
        lines(
            "Audit chain",
            "Seconds for which the oldest act waits for its link, and signed segments that the audit bucket lacks.",
            "short",
            query(gauge(names.AUDIT_CHAIN_LAG_SECONDS, take="max"), "lag"),
            query(gauge(names.AUDIT_UNSHIPPED_SEGMENTS, take="max"), "unshipped"),
            query(rate(names.AUDIT_LINKS), "linked per second"),
        ),
        lines(
            "Restarts",
            "Processes of one machine that its supervisor started again, in ten minutes, by what was wrong with them.",
            "short",
            query(f"{increase(names.RESTARTS, 'process', 'reason', window='10m')} > 0", "{{process}} {{reason}}"),
        ),
        lines(
            "Certificates' life left",
            "Share of each certificate's time that is left; below 0 % it has expired. Renew it well before.",
            "percentunit",
            query(f"min by (instance, role) ({LEFT})", "{{instance}}"),
        ),
    ),
)

BOARD = Board(
    title="Diagnosis",
    says="Which part is the bottleneck, from evidence? `penstock diagnose` reads the same figures and says it.",
    rows=(TIME, ENGINES, GATEWAYS, TOLD_APART, WORKERS, CONTROL),
)
