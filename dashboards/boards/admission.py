"""Queues, refusals, and each tenant's share against its weight."""

from dashboards.layout import Board, Row
from dashboards.panels import lines, number, parts
from dashboards.queries import gauge, quantile, query, rate, ratio, series, spent
from penstock.domain.outcome import Outcome, Stage
from penstock.domain.tokens import OUTPUT_WEIGHT, PROMPT_WEIGHT
from penstock.telemetry import names

SERVICE = (
    f"({PROMPT_WEIGHT:g} * {rate(names.PROMPT_TOKENS, 'tenant')}"
    f" + {OUTPUT_WEIGHT:g} * {rate(names.OUTPUT_TOKENS, 'tenant')})"
)
"""Tokens of service a second by tenant: those of an answer count double, as in the fair order (ADR 0031)."""
WEIGHT = f"({gauge(names.TENANT_WEIGHT, 'tenant', take='max')} and on (tenant) ({SERVICE} > 0))"
"""The weights of the tenants served just now: a tenant that asks for nothing has no share."""
SHARE = f"{SERVICE} / scalar(sum({SERVICE}) > 0)"
DUE = f"{WEIGHT} / scalar(sum({WEIGHT}))"
WAIT = names.GATE_SECONDS
LIMITED = f"{Outcome.OVER_LIMIT}|{Outcome.OVER_BUDGET}"
OURS = "|".join(one.value for one in Outcome if one.spends_error_budget)
SHED = f"({rate(names.DOOR_SHED)} or vector(0))"

NOW = Row(
    title="Now",
    panels=(
        number(
            "Waiting at workers",
            "Requests that the workers have taken and not yet let into their engines.",
            "short",
            query(gauge(names.DOOR_WAITING), "waiting"),
        ),
        number(
            "Highest saturation",
            "Sequences or KV blocks booked of the fullest engine. At 100 % requests wait; above, engines make room for"
            " a tenant that had nothing inside.",
            "percentunit",
            query(gauge(names.DOOR_SATURATION, take="max"), "full"),
            steps=((None, "green"), (0.9, "orange"), (1.0, "red")),
        ),
        number(
            "Wait, p95",
            "Seconds in the workers' queues.",
            "s",
            query(quantile(0.95, WAIT, stage=Stage.QUEUE), "p95"),
        ),
        number(
            "Refused by workers",
            "The share of the requests at the workers' queues that were refused there.",
            "percentunit",
            query(
                ratio(SHED, f"({rate(WAIT, stage=Stage.QUEUE)} + {SHED})"),
                "refused",
            ),
            steps=((None, "green"), (0.01, "orange"), (0.1, "red")),
        ),
    ),
)

WHO = Row(
    title="Who waits or is refused: the busiest tenants by name, the rest as other",
    panels=(
        parts(
            "Waiting, by tenant",
            "Requests in the workers' queues on average, by whose they are; counted when they leave the queue.",
            "short",
            query(f"{spent(names.TENANT_QUEUE_SECONDS, 'tenant')} > 0", "{{tenant}}"),
        ),
        parts(
            "At their limits, by tenant",
            "Refused for a rate, a budget or their own full queue; unread: before their body was read.",
            "reqps",
            query(f"{rate(names.EARLY_REFUSALS, 'tenant', outcome=LIMITED)} > 0", "{{tenant}}, unread"),
            query(f"{rate(names.REQUESTS, 'tenant', outcome=LIMITED)} > 0", "{{tenant}}"),
        ),
        parts(
            "Refused or failed by us, by tenant",
            "What no tenant is at fault for: no capacity, evicted, late, an engine's error or ours.",
            "reqps",
            query(f"{rate(names.REQUESTS, 'tenant', 'outcome', outcome=OURS)} > 0", "{{tenant}} {{outcome}}"),
        ),
        lines(
            "First token by tenant",
            "The 95th percentile of streams; a tenant that waits longer than others is behind its own or another.",
            "s",
            query(quantile(0.95, names.TENANT_TTFT_SECONDS, "tenant"), "{{tenant}}"),
        ),
        lines(
            "Token gap by tenant",
            "The 95th percentile of the time between tokens of streams.",
            "s",
            query(quantile(0.95, names.TENANT_ITL_SECONDS, "tenant"), "{{tenant}}"),
        ),
    ),
)

DOOR = Row(
    title="The queue of each engine",
    panels=(
        lines(
            "Queue",
            "Requests waiting for a place in the engine. It grows if more arrive than the engine can serve.",
            "short",
            query(gauge(names.DOOR_WAITING, "instance"), "{{instance}}"),
        ),
        lines(
            "Saturation",
            "Sequences or KV blocks booked of each engine, whichever is scarcer. Above 100 % it makes room for a tenant"
            " that had nothing inside.",
            "percentunit",
            query(gauge(names.DOOR_SATURATION, "instance", take="max"), "{{instance}}"),
        ),
        lines(
            "Wait in the queue",
            "What requests waited before they came into the engine.",
            "s",
            query(quantile(0.5, WAIT, stage=Stage.QUEUE), "p50"),
            query(quantile(0.95, WAIT, stage=Stage.QUEUE), "p95"),
            query(quantile(0.99, WAIT, stage=Stage.QUEUE), "p99"),
        ),
        lines(
            "Slots of batch work",
            "What batch work may hold of each engine beside other classes: the lowest line. All of it while those are"
            " away. Ttft, itl: learned from late tokens. Autoscaler: what its workers leave.",
            "short",
            query(gauge(names.DOOR_BATCH_SLOTS, "instance", "reason", take="min"), "{{instance}} {{reason}}"),
        ),
        lines(
            "Standing back",
            "Share of time in which a flood's next prompt waits for a tenant that is expected any moment (ADR 0040).",
            "percentunit",
            query(f"avg by (instance) (avg_over_time({series(names.DOOR_STANDING_BACK)}[5m]))", "{{instance}}"),
        ),
    ),
)

AWAY = Row(
    title="Refused requests",
    panels=(
        parts(
            "By workers, by priority class",
            "Shed first to last: shadow, batch, over quota, free, paid, interactive.",
            "reqps",
            query(rate(names.DOOR_SHED, "standing"), "{{standing}}"),
        ),
        parts(
            "By workers, by reason",
            "Late: past its deadline. Overloaded: no room. Tenant_queue: behind its own. Evicted: for a higher class.",
            "reqps",
            query(rate(names.DOOR_SHED, "reason"), "{{reason}}"),
        ),
        parts(
            "By the gate",
            "Sent back before the door: draining, a ticket that is not good, too large.",
            "reqps",
            query(rate(names.GATE_REFUSALS, "reason"), "{{reason}}"),
        ),
        parts(
            "Answered with an error",
            "All refusals of the gateways by their code in the published table.",
            "reqps",
            query(rate(names.REFUSALS, "code"), "{{code}}"),
        ),
        parts(
            "Without a worker",
            "Requests held or refused because no worker of their version served, by version.",
            "reqps",
            query(rate(names.NO_WORKER, "version"), "{{version}}"),
        ),
    ),
)

SHARES = Row(
    title="Fairness: tokens of service, a token of an answer counts double",
    panels=(
        parts(
            "Service by tenant",
            "What each tenant gets of the engines, in tokens of service a second.",
            "suffix: tok/s",
            query(SERVICE, "{{tenant}}"),
        ),
        lines(
            "Share by tenant",
            "Each tenant's part of the service; due is its part by weight among the tenants served now.",
            "percentunit",
            query(SHARE, "{{tenant}}"),
            query(DUE, "{{tenant}} due"),
        ),
        lines(
            "Share against weight",
            "1 is exactly its weight. A tenant that asks for less stays below, and others above, without harm;"
            " below 1 while it waits is unfair.",
            "short",
            query(f"({SHARE}) / on (tenant) ({DUE})", "{{tenant}}"),
        ),
    ),
)

LIMITS = Row(
    title="Limits and degradation",
    panels=(
        lines(
            "Reach of the limits store",
            "Gateways by reach: shared is the store that all share, alone is each for its part.",
            "short",
            query(gauge(names.LIMITS_REACH, "state"), "{{state}}"),
            query(gauge(names.LIMITS_GATEWAYS, take="max"), "gateways known"),
        ),
        lines(
            "Decisions without the store",
            "What was applied: closed (refused), share (a part of the limit), open (not counted).",
            "ops",
            query(rate(names.LIMITS_ALONE, "reason"), "{{reason}}"),
        ),
        lines(
            "Held for a wake",
            "Requests whose version sleeps, held until a worker serves again.",
            "short",
            query(gauge(names.HELD_REQUESTS), "held"),
        ),
        lines(
            "Under pressure",
            "Gateways that see a version under pressure: tenants that opted in get lesser answers.",
            "short",
            query(gauge(names.PRESSURE, "version"), "{{version}}"),
        ),
        lines(
            "Degraded answers",
            "Instead of a refusal, by what the answer lacks.",
            "reqps",
            query(rate(names.DEGRADED, "reason", "model"), "{{reason}} {{model}}"),
        ),
    ),
)

BOARD = Board(
    title="Admission and fairness",
    says="Which requests wait or are refused, and does each tenant get its share by weight?",
    rows=(NOW, WHO, DOOR, SHARES, AWAY, LIMITS),
)
