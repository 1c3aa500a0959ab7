"""The names of recorded series: level:metric:operation, at the level of one tier's objective.

Rules, alerts, boards and ``penstock slo status`` spell them here alone.
"""

BASE_WINDOW = "5m"
"""The one window over which the platform's own counters are read; every longer one adds up what was recorded."""
INTERVAL_S = 30
"""So often all of it is recorded: a sample of a rate stands for the events of so many seconds."""
EVENTS = f"tier_objective:slo_events:rate{BASE_WINDOW}"
BAD_EVENTS = f"tier_objective:slo_bad_events:rate{BASE_WINDOW}"
BUDGET = "tier_objective:slo_error_budget:ratio"
BUDGET_LEFT = "tier_objective:slo_budget_left:ratio"
TIER, OBJECTIVE = "tier", "objective"


def error_ratio(window: str) -> str:
    return f"tier_objective:slo_errors:ratio_rate{window}"


def count(rate: str, window: str, interval_s: int = INTERVAL_S) -> str:
    """Return the PromQL of a window's events, by a recorded rate.

    Missing samples add nothing: a mean would take a young Prometheus's first minute for the whole window.
    """
    return f"sum_over_time({rate}[{window}]) * {interval_s}"


def select(series: str, tier: str, objective: str) -> str:
    return f'{series}{{{OBJECTIVE}="{objective}",{TIER}="{tier}"}}'
