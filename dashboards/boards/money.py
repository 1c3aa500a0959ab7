"""Money: the billed amounts by tenant, how exact they are, and whether their rows reach the ledger."""

from dashboards.layout import Board, Row
from dashboards.panels import lines, number, parts
from dashboards.queries import gauge, increase, query, rate, series
from penstock.telemetry import names

HOUR_S = 3600
DAY = "24h"

NOW = Row(
    title="Now",
    panels=(
        number(
            "Billed", "In the time shown, US dollars.", "currencyUSD", query(increase(names.BILLED_DOLLARS), "billed")
        ),
        number(
            "Fullest budget",
            "Part of the fullest budget that is spent. Above 100 %: running requests exceeded it by one top-up each.",
            "percentunit",
            query(gauge(names.BUDGET_USED_RATIO, take="max"), "spent"),
            steps=((None, "green"), (0.8, "orange"), (1.0, "red")),
        ),
        number(
            "Ledger behind",
            "Seconds since the slowest gateway last brought all its rows to the ledger.",
            "s",
            query(f"time() - min({series(names.LEDGER_DELIVERED_AT)} > 0)", "behind"),
            steps=((None, "green"), (60, "orange"), (120, "red")),
        ),
    ),
)

BILLS = Row(
    title="Bills",
    panels=(
        parts(
            "By tenant",
            "US dollars an hour at the present pace.",
            "currencyUSD",
            query(f"{HOUR_S} * {rate(names.BILLED_DOLLARS, 'tenant')}", "{{tenant}}"),
        ),
        parts(
            "By model",
            "US dollars an hour at the present pace.",
            "currencyUSD",
            query(f"{HOUR_S} * {rate(names.BILLED_DOLLARS, 'model')}", "{{model}}"),
        ),
        parts(
            "By service tier",
            "US dollars an hour at the present pace, each tier's price factor included.",
            "currencyUSD",
            query(f"{HOUR_S} * {rate(names.SERVICE_TIER_DOLLARS, 'service_tier')}", "{{service_tier}}"),
        ),
        parts(
            "Requests by service tier",
            "Finished requests a second by the tier that served them.",
            "reqps",
            query(rate(names.SERVICE_TIER_REQUESTS, "service_tier"), "{{service_tier}}"),
        ),
        parts(
            "Tokens",
            "Of settled requests, a second; cached ones are part of the prompt and cost less.",
            "suffix: tok/s",
            query(f"{rate(names.PROMPT_TOKENS)} - {rate(names.CACHED_TOKENS)}", "prompt, read anew"),
            query(rate(names.CACHED_TOKENS), "prompt, from the cache"),
            query(rate(names.OUTPUT_TOKENS), "output"),
        ),
        parts(
            "Requests by tenant",
            "Settled, a second, however they ended.",
            "reqps",
            query(rate(names.REQUESTS, "tenant"), "{{tenant}}"),
        ),
    ),
)

BUDGETS = Row(
    title="Budgets",
    panels=(
        lines(
            "Spent",
            "Part of each budget: the fullest fifty, the fullest of all others as other. Above 100 % it was exceeded.",
            "percentunit",
            query(gauge(names.BUDGET_USED_RATIO, "scope", "window", take="max"), "{{scope}} {{window}}"),
        ),
        lines(
            "Refused for money",
            "Requests a second refused for a budget, before they cost anything.",
            "reqps",
            query(rate(names.REFUSALS, "code", code="budget_exceeded|budget_reached"), "{{code}}"),
        ),
        lines(
            "Repeated requests",
            "With an idempotency key: first, replayed, joined one in flight, or conflicting. A replay costs nothing.",
            "reqps",
            query(rate(names.IDEMPOTENT_REQUESTS, "state"), "{{state}}"),
        ),
    ),
)

EXACT = Row(
    title="Exactness",
    panels=(
        lines(
            "Bills that are not exact",
            "In a day. Guessed: no count could be had. Capped: a worker reported more than possible."
            " Empty: an answer for nothing. Differs: the engine tells another count than its gate.",
            "short",
            query(increase(names.GUESSED_BILLS, window=DAY), "guessed"),
            query(increase(names.CAPPED_BILLS, window=DAY), "capped"),
            query(increase(names.EMPTY_BILLS, window=DAY), "empty"),
            query(increase(names.USAGE_DIFFERS, window=DAY), "differs"),
        ),
        lines(
            "Ledger behind",
            "Seconds since a gateway last brought all its rows to the ledger; until then they wait on its disk.",
            "s",
            query(f"time() - max by (instance) ({series(names.LEDGER_DELIVERED_AT)} > 0)", "{{instance}}"),
        ),
        lines(
            "Disk",
            "Used part of the disk of each gateway's spool, and 1 while it refuses writes: then requests are refused.",
            "percentunit",
            query(gauge(names.DISK_USED_RATIO, "instance", take="max"), "{{instance}} used"),
            query(gauge(names.SPOOL_FULL, "instance", take="max"), "{{instance}} refuses"),
        ),
        lines(
            "Rows refused by the ledger",
            "In a day, for what they say; they are set aside and missing from bills.",
            "short",
            query(increase(names.LEDGER_ROWS_REFUSED, window=DAY), "rows"),
        ),
        lines(
            "Reservations overdue",
            "Still held a minute after the deadline of their request: limits and budgets that can't be used.",
            "short",
            query(gauge(names.RESERVATIONS_OVERDUE, "instance"), "{{instance}}"),
        ),
    ),
)

BOARD = Board(
    title="Money and tenants",
    says="What is billed, to whom, how exactly, and is the ledger complete?",
    rows=(NOW, BILLS, BUDGETS, EXACT),
)
