"""Content filters: what they did to prompts and answers, and what they cost."""

from dashboards.layout import Board, Row
from dashboards.panels import lines, parts
from dashboards.queries import quantile, query, rate
from penstock.telemetry import names

DONE = Row(
    title="Interventions",
    panels=(
        parts(
            "By action",
            "Matches a second. Observe: only recorded; mask: the match was replaced; block: the text ended there.",
            "ops",
            query(rate(names.INTERVENTIONS, "outcome"), "{{outcome}}"),
        ),
        parts(
            "By rule",
            "Matches a second, as pack and rule; a rule that leads since a push may have false positives.",
            "ops",
            query(rate(names.INTERVENTIONS, "rule"), "{{rule}}"),
        ),
        parts(
            "By stage",
            "Matches a second in prompts (input) and in answers (output).",
            "ops",
            query(rate(names.INTERVENTIONS, "stage"), "{{stage}}"),
        ),
    ),
)

COST = Row(
    title="Cost",
    panels=(
        lines(
            "Hold",
            "Longest time that an event of a stream was held back until its text was judged.",
            "s",
            query(quantile(0.5, names.HOLD_SECONDS), "p50"),
            query(quantile(0.99, names.HOLD_SECONDS), "p99"),
        ),
        lines(
            "First token, p95",
            "Of streams, as it came from an engine and as its caller saw it: filters hold the difference.",
            "s",
            query(quantile(0.95, names.TTFT_SECONDS), "from the engine"),
            query(quantile(0.95, names.VISIBLE_TTFT_SECONDS), "visible"),
        ),
        lines(
            "Held events",
            "Most events that a stream held back at once, mostly of a token each.",
            "short",
            query(quantile(0.5, names.HELD_EVENTS), "p50"),
            query(quantile(0.99, names.HELD_EVENTS), "p99"),
        ),
        parts(
            "Bounds met",
            "Streams that held more or longer than their packs allow, by what the packs say then.",
            "ops",
            query(rate(names.HOLD_BOUNDS_MET, "outcome"), "{{outcome}}"),
        ),
        parts(
            "Judges",
            "Suspicions by what a rule's model said: confirmed, cleared, or block or release if it was away.",
            "ops",
            query(rate(names.JUDGE_VERDICTS, "outcome"), "{{outcome}}"),
        ),
        parts(
            "Texts dropped",
            "Wanted texts of matches that are not kept: full, its tenant's bound is met; no_key, none could be had.",
            "ops",
            query(rate(names.MATCH_TEXTS_DROPPED, "outcome"), "{{outcome}}"),
        ),
        lines(
            "Judge latency",
            "Time until a rule's model had confirmed or cleared a suspicion, or was given up.",
            "s",
            query(quantile(0.5, names.JUDGE_SECONDS), "p50"),
            query(quantile(0.99, names.JUDGE_SECONDS), "p99"),
        ),
    ),
)

BOARD = Board(
    title="Safety",
    says="What do content filters stop, and what does it cost?",
    rows=(DONE, COST),
)
