"""Capacity and cost (J6): what a GPU yields, what tokens earn, what stands idle, and what scaling looks at."""

from dashboards.layout import Board, Row
from dashboards.panels import lines, number, parts
from dashboards.queries import gauge, increase, quantile, query, rate, ratio, series
from penstock.domain.outcome import Stage
from penstock.telemetry import names

THOUSAND = 1000
DEVICES = gauge(names.WORKER_DEVICES, "version")
PER_DEVICE = ratio(rate(names.ENGINE_STEP_TOKENS, "version"), DEVICES)
TOKENS = f"({rate(names.PROMPT_TOKENS, 'model')} + {rate(names.OUTPUT_TOKENS, 'model')})"
PER_1K = f"{THOUSAND} * {ratio(rate(names.BILLED_DOLLARS, 'model'), TOKENS)}"
HOUR_S, MINUTE_S = 3600, 60
PRICE = gauge(names.SCALE_DOLLARS_PER_HOUR, "version", take="max")
ONE_TOKEN = f"{PRICE} / {HOUR_S} / ({rate(names.VERSION_TOKENS, 'version', tenant='.*')} > 0)"
OF_TENANT = rate(names.VERSION_TOKENS, "version", "tenant")
TENANTS_DOLLARS = f"sum by (tenant) ({OF_TENANT} * on (version) group_left () ({ONE_TOKEN}))"
TENANTS_TOKENS = f"sum by (tenant) ({OF_TENANT} and on (version) {PRICE})"
"""Of versions with a price: tokens without one are left out, since unknown is not 0."""
ENDS_AT = gauge(names.SCALE_OVERRIDE_ENDS_AT, "version", take="max")
IDLE = (
    f"{series(names.WORKER_DEVICES)} * on (instance, version) group_left () ({series(names.ENGINE_RUNNING)} == bool 0)"
)
IDLE_MINUTES = f"sum by (version) (sum_over_time(({IDLE})[1h:1m]))"
"""Of the last hour; a worker is looked at once a minute."""

NOW = Row(
    title="Now (where an engine runs on a CPU, that CPU stands for a GPU)",
    panels=(
        number("GPUs", "That workers compute on.", "short", query(gauge(names.WORKER_DEVICES), "GPUs")),
        number(
            "Tokens/s per GPU",
            "Computed, of prompts and of answers.",
            "suffix: tok/s",
            query(ratio(rate(names.ENGINE_STEP_TOKENS), gauge(names.WORKER_DEVICES)), "per GPU"),
        ),
        number("Idle now", "GPUs whose worker runs nothing.", "short", query(f"sum({IDLE})", "idle")),
        number("Idle GPU minutes", "Of the last hour, over all workers.", "m", query(f"sum({IDLE_MINUTES})", "idle")),
    ),
)

COST = Row(
    title="Cost",
    panels=(
        lines(
            "Tokens/s per GPU",
            "By version: what each GPU that serves it yields.",
            "suffix: tok/s",
            query(PER_DEVICE, "{{version}}"),
        ),
        lines(
            "Price of 1k tokens",
            "What a thousand tokens earned on the way, prompt and output together, US dollars.",
            "currencyUSD",
            query(PER_1K, "{{model}}"),
        ),
        lines(
            "Cost of 1k tokens by version",
            "A scaled version's workers at their price, over the tokens that they served; none without a price.",
            "currencyUSD",
            query(f"{THOUSAND} * {ONE_TOKEN}", "{{version}}"),
        ),
        lines(
            "Cost of 1k tokens by tenant",
            "Each token at its version's cost, US dollars. Idle GPUs are paid by the tokens of the same minutes.",
            "currencyUSD",
            query(f"{THOUSAND} * {ratio(TENANTS_DOLLARS, TENANTS_TOKENS)}", "{{tenant}}"),
        ),
        lines(
            "Idle GPU minutes an hour",
            "By version: paid for, and nothing running.",
            "m",
            query(IDLE_MINUTES, "{{version}}"),
        ),
        lines(
            "Idle GPU minutes an hour by reason",
            "Of scaled versions: floor, override, headroom of the target load, slow scale-in, unmeasured, warm pool.",
            "m",
            query(
                f"{increase(names.SCALE_IDLE_GPU_SECONDS, 'version', 'reason', window='1h')} / {MINUTE_S}",
                "{{version}} {{reason}}",
            ),
        ),
        parts(
            "GPUs by version",
            "By kind of device.",
            "short",
            query(gauge(names.WORKER_DEVICES, "version", "device"), "{{version}} {{device}}"),
        ),
    ),
)

GPU_TIER = Row(
    title="What the GPU tier scales on (H1)",
    panels=(
        lines(
            "Queue wait, p95",
            "At the doors, by version.",
            "s",
            query(quantile(0.95, names.GATE_SECONDS, "version", stage=Stage.QUEUE), "{{version}}"),
        ),
        lines(
            "Queued tokens a worker",
            "Tokens of work taken and not yet done, mean.",
            "short",
            query(gauge(names.QUEUED_TOKENS, "version", take="avg"), "{{version}}"),
        ),
        lines(
            "Saturation",
            "Sequences or KV blocks booked, mean over workers. Above 100 % engines make room for other tenants.",
            "percentunit",
            query(gauge(names.DOOR_SATURATION, "version", take="avg"), "{{version}}"),
        ),
        lines(
            "Error of the predicted TTFT",
            "At workers, in parts of the real one (0.2: a fifth): by the step model of each engine.",
            "none",
            query(quantile(0.5, names.TTFT_ERROR_RATIO, "version"), "{{version}} median"),
            query(quantile(0.9, names.TTFT_ERROR_RATIO, "version"), "{{version}} p90"),
        ),
        lines(
            "TTFT, p95", "Of streams, by model.", "s", query(quantile(0.95, names.TTFT_SECONDS, "model"), "{{model}}")
        ),
    ),
)

SCALING = Row(
    title="What the autoscaler decides",
    panels=(
        lines(
            "Workers and wish",
            "By scaled version: the number that it is to have, and its need before bounds.",
            "short",
            query(gauge(names.SCALE_WORKERS, "version", take="max"), "{{version}}"),
            query(gauge(names.SCALE_WISH_WORKERS, "version", take="max"), "{{version}} wish"),
            query(gauge(names.SCALE_CORDONED, "version", take="max"), "{{version}} cordoned"),
            query(gauge(names.WORKERS, "version", state="ready"), "{{version}} ready"),
        ),
        lines(
            "Overrides",
            "Minutes until a person's number for a version ends.",
            "m",
            query(
                f"({gauge(names.SCALE_OVERRIDE_ENDS_AT, 'version', take='max')} - time()) / {MINUTE_S}", "{{version}}"
            ),
        ),
        lines(
            "Replicas told to KEDA",
            "By ScaledObject, in a cluster; the leading controller tells them.",
            "short",
            query(gauge(names.SCALE_REPLICAS, "object", take="max"), "{{object}}"),
        ),
        lines(
            "Changes",
            "Of the number, in an hour, by kind.",
            "short",
            query(increase(names.SCALE_CHANGES, "version", "reason", window="1h"), "{{version}} {{reason}}"),
        ),
        lines(
            "Price",
            "Of scaled versions, by the scale file.",
            "currencyUSD",
            query(gauge(names.SCALE_DOLLARS_PER_HOUR, "version", take="max"), "{{version}}"),
        ),
        lines(
            "Silent gateways",
            "While there are any, nothing scales in.",
            "short",
            query(gauge(names.DEMAND_SILENT_GATEWAYS, take="max"), "silent"),
        ),
    ),
)

CPU_TIER = Row(
    title="What the CPU tier scales on (H1)",
    panels=(
        lines(
            "Requests by gateway",
            "Settled, a second.",
            "reqps",
            query(rate(names.REQUESTS, "instance"), "{{instance}}"),
        ),
        lines(
            "Preprocessing, p95",
            "Template, tokens, context check.",
            "s",
            query(quantile(0.95, names.STAGE_SECONDS, "instance", stage=Stage.PREPROCESS), "{{instance}}"),
        ),
        lines(
            "In flight by gateway",
            "Between admission and settlement.",
            "short",
            query(gauge(names.IN_FLIGHT, "instance"), "{{instance}}"),
        ),
        lines(
            "Event loop's lag, p99",
            "How late a gateway runs its timers: it has more to do than one core can.",
            "s",
            query(quantile(0.99, names.LOOP_LAG_SECONDS, "instance"), "{{instance}}"),
        ),
    ),
)

BOARD = Board(
    title="Capacity and cost",
    says="What does a GPU yield, what does it cost while idle, and is it time for more or fewer?",
    rows=(NOW, COST, SCALING, GPU_TIER, CPU_TIER),
)
