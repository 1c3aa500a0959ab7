"""What promises are kept, what is left of their error budgets, and how the platform does just now."""

from dashboards.layout import Board, Row
from dashboards.panels import lines, number, parts
from dashboards.queries import gauge, increase, quantile, query, rate, ratio, recorded
from penstock.domain.outcome import Outcome
from penstock.slo.recorded import BUDGET, BUDGET_LEFT, error_ratio
from penstock.telemetry import names

OURS = "|".join(sorted(one.value for one in Outcome if one.spends_error_budget))
"""How requests end where the platform, not the caller, is at fault."""
FIRING = 'ALERTS{alertstate="firing"}'
BURN = f"{recorded(error_ratio('1h'))} / {recorded(BUDGET)}"

NOW = Row(
    title="Now",
    panels=(
        number("Requests", "Settled, a second.", "reqps", query(rate(names.REQUESTS), "requests")),
        number(
            "Failed by us",
            "Share of requests that ended badly and not by the caller's fault.",
            "percentunit",
            query(ratio(f"({rate(names.REQUESTS, outcome=OURS)} or vector(0))", rate(names.REQUESTS)), "failed"),
            steps=((None, "green"), (0.001, "orange"), (0.01, "red")),
        ),
        number("First token, p95", "Of streams.", "s", query(quantile(0.95, names.VISIBLE_TTFT_SECONDS), "p95")),
        number("Token gap, p95", "Of streams.", "s", query(quantile(0.95, names.ITL_SECONDS), "p95")),
        number("Output", "Tokens of answers, a second.", "suffix: tok/s", query(rate(names.OUTPUT_TOKENS), "tokens")),
        number(
            "Alerts",
            "That fire now.",
            "short",
            query(f"count({FIRING}) or vector(0)", "firing"),
            steps=((None, "green"), (1, "red")),
        ),
        number("Ready workers", "They take requests.", "short", query(gauge(names.WORKERS, state="ready"), "ready")),
    ),
)

ROLLOUTS = Row(
    title="Rollouts",
    panels=(
        lines(
            "Candidate's share",
            "Of its alias, by weight; what it touches in tokens stands in `penstock rollout status`.",
            "percentunit",
            query(gauge(names.ROLLOUT_SHARE_RATIO, "model", take="max"), "{{model}}"),
        ),
        parts(
            "Where they are",
            "Held and frozen ones wait for a person, or for an error budget.",
            "short",
            query(gauge(names.ROLLOUTS, "model", "state", take="max"), "{{model}} {{state}}"),
        ),
        lines(
            "Ended",
            "In an hour, by alias and how.",
            "short",
            query(increase(names.ROLLOUT_ENDS, "model", "state", window="1h"), "{{model}} {{state}}"),
        ),
        lines(
            "In need of a look",
            "1 where the judge is unfit, as the incumbent's own workers differ, or would undo what a person promoted.",
            "short",
            query(gauge(names.JUDGE_UNFIT, "model", take="max"), "{{model}} unfit"),
            query(gauge(names.ROLLOUT_UNDO_PROPOSED, "model", take="max"), "{{model}} undo proposed"),
        ),
    ),
)

PROMISES = Row(
    title="Promises",
    panels=(
        lines(
            "Error budgets spent",
            "How many times over each promise's budget was spent in its whole window: 0 is untouched, at 1 it is spent"
            " and rollouts freeze.",
            "short",
            query(f"1 - {recorded(BUDGET_LEFT)}", "{{tier}} {{objective}}"),
        ),
        lines(
            "Burn rate",
            "How many times faster than allowed the last hour spent it; at 1 it lasts exactly for its window.",
            "short",
            query(BURN, "{{tier}} {{objective}}"),
        ),
        lines(
            "Alerts that fire",
            "By name and severity; each has a runbook of its name.",
            "short",
            query(f"count by (alertname, severity) ({FIRING})", "{{alertname}} ({{severity}})"),
        ),
    ),
)

TRAFFIC = Row(
    title="Traffic",
    panels=(
        parts("Requests by model", "Settled, a second.", "reqps", query(rate(names.REQUESTS, "model"), "{{model}}")),
        parts(
            "How they end",
            "Settled, a second, by outcome.",
            "reqps",
            query(f"{rate(names.REQUESTS, 'outcome')} > 0", "{{outcome}}"),
        ),
        parts(
            "Output tokens by model",
            "Of answers, a second.",
            "suffix: tok/s",
            query(rate(names.OUTPUT_TOKENS, "model"), "{{model}}"),
        ),
        parts(
            "Requests by tier",
            "What promises are about, a second: by tier and how they end.",
            "reqps",
            query(f"{rate(names.TIER_REQUESTS, 'tier', 'outcome')} > 0", "{{tier}}: {{outcome}}"),
        ),
        parts(
            "Streams by tier",
            "Streams that had begun, a second, by tier and how they end.",
            "reqps",
            query(f"{rate(names.TIER_STREAMS, 'tier', 'outcome')} > 0", "{{tier}}: {{outcome}}"),
        ),
    ),
)

BOARD = Board(
    title="Overview",
    says="Are the promises kept, what is left of their error budgets, and is anything wrong just now?",
    rows=(NOW, PROMISES, ROLLOUTS, TRAFFIC),
)
