"""Alerts of one promise: its budget burns too fast, over a pair of windows (multi-window, multi-burn-rate).

One alert for each pair, told apart by the label ``window``: two pairs in one expression would hide each other's faults.
"""

from penstock.slo import recorded
from penstock.slo.promise import Promise
from penstock.slo.rule import Alert
from penstock.slo.windows import DAY_S, WindowPair, Windows

NAMES = {
    "availability": "AvailabilityBurn",
    "stream_completion": "StreamCompletionBurn",
    "ttft": "TtftBurn",
    "itl": "ItlBurn",
    "latency": "LatencyBurn",
}
"""An alert's name by its objective; its runbook has the same."""
EFFECT = (
    "Promised: {says} At the pace of the last {window} the budget of {days} days is spent within"
    " {{{{ with query `{query}` }}}}{{{{ . | first | value | humanizeDuration }}}}"
    "{{{{ else }}}}an unknown time{{{{ end }}}}."
)
"""Prometheus asks when it tells: what is measured, and not what the alert is about at least."""


def of(promise: Promise, windows: Windows, interval_s: int) -> list[Alert]:
    return [_alert(promise, pair, _expr(promise, pair, windows.least_bad_events, interval_s)) for pair in windows.pairs]


def _alert(promise: Promise, pair: WindowPair, expr: str) -> Alert:
    factor = pair.factor(promise.period_days)
    return Alert(
        name=NAMES[promise.objective],
        expr=expr,
        severity=pair.severity,
        labels={**promise.labels, "window": pair.long},
        summary=(
            f"{promise.tier}: {{{{ $value | humanizePercentage }}}} of the last {pair.long} broke the promise of"
            f" {promise.objective}, more than {factor:.3g} times what its budget allows."
        ),
        effect=EFFECT.format(
            says=promise.says, window=pair.long, days=promise.period_days, query=_spent_within_s(promise, pair)
        ),
    )


def _spent_within_s(promise: Promise, pair: WindowPair) -> str:
    """Return the PromQL of the whole minutes until the budget is spent at the long window's pace."""
    whole_s = promise.period_days * DAY_S * promise.budget_ratio
    return f"round({whole_s:.6g} / {promise.series(recorded.error_ratio(pair.long))}, 60)"


def _expr(promise: Promise, pair: WindowPair, least_bad_events: int, interval_s: int) -> str:
    """Return the alert's PromQL: both windows burn, and the long one has enough bad events."""
    bound = f"({pair.factor(promise.period_days):.6g} * {promise.budget_ratio:.6g})"
    long, short = (promise.series(recorded.error_ratio(window)) for window in (pair.long, pair.short))
    bad = recorded.count(promise.series(recorded.BAD_EVENTS), pair.long, interval_s)
    return f"{long} > {bound}\nand\n{short} > {bound}\nand\n{bad} >= {least_bad_events}"
