"""Alerts of one objective: its budget burns too fast, over a pair of windows (multi-window, multi-burn-rate).

There is one alert for each pair, with the label ``window``: two pairs in one expression would hide each other's faults.
"""

from penstock.slo import recorded
from penstock.slo.recorded import Promise
from penstock.slo.rule import Alert
from penstock.slo.windows import DAY_S, WindowPair, Windows, seconds

NAMES = {
    "availability": "AvailabilityBurn",
    "stream_completion": "StreamCompletionBurn",
    "ttft": "TtftBurn",
    "itl": "ItlBurn",
    "latency": "LatencyBurn",
    "turnaround": "TurnaroundBurn",
}
"""An alert's name by its objective; its runbook has the same name."""
EFFECT = (
    "Promised: {says} At the pace of the last {window} the budget of {days} days is spent within"
    " {{{{ with query `{query}` }}}}{{{{ . | first | value | humanizeDuration }}}}"
    "{{{{ else }}}}an unknown time{{{{ end }}}}."
)
"""The measured effect is queried when the alert is sent, not the value at which it fired."""
LAST_MINUTE = "1m"
"""The counters' window that shows whether a fault is over: twice Prometheus' usual interval."""
OVER_S = 90
"""Seconds without a faulty window after which a fault is over: the window's length, and one evaluation."""
OVER = (
    "{{{{ with query `{query}` }}}} Over since {{{{ . | first | value | humanizeTimestamp }}}};"
    " this alert ends by itself.{{{{ end }}}}"
)


def of(promise: Promise, windows: Windows, interval_s: int) -> list[Alert]:
    return [_alert(promise, pair, windows, interval_s) for pair in windows.pairs]


def _alert(promise: Promise, pair: WindowPair, windows: Windows, interval_s: int) -> Alert:
    factor = pair.factor(promise.period_days)
    return Alert(
        name=NAMES[promise.objective],
        expr=_expr(promise, pair, windows, interval_s),
        severity=pair.severity,
        labels={**promise.labels, "window": pair.long},
        summary=(
            f"{promise.tier}: {{{{ $value | humanizePercentage }}}} of the last {pair.long} broke the promise of"
            f" {promise.objective}, more than {factor:.3g} times what its budget allows."
            + OVER.format(query=_over_since(promise, pair, windows.now_ratio, interval_s))
        ),
        effect=EFFECT.format(
            says=promise.says, window=pair.long, days=promise.period_days, query=_spent_within_s(promise, pair)
        ),
    )


def _spent_within_s(promise: Promise, pair: WindowPair) -> str:
    whole_s = promise.period_days * DAY_S * promise.budget_ratio
    return f"round({whole_s:.6g} / {promise.series(recorded.error_ratio(pair.long))}, 60)"


def _over_since(promise: Promise, pair: WindowPair, now_ratio: float, interval_s: int) -> str:
    bad, events = (rate(LAST_MINUTE) for rate in (promise.measure.bad_rate, promise.measure.events_rate))
    burned = f"({bad}) > {now_ratio * promise.threshold(pair):.6g} * ({events})"
    seen_s = seconds(pair.now) + 2 * seconds(recorded.BASE_WINDOW)
    return f"max_over_time(timestamp({burned})[{seen_s}s:{interval_s}s]) < time() - {OVER_S}"


def _expr(promise: Promise, pair: WindowPair, windows: Windows, interval_s: int) -> str:
    """Require that all windows burn, and that the long one has enough bad events.

    Those of the last minutes are counted directly, because sums of recorded rates lag by minutes.
    """
    bound = f"({pair.factor(promise.period_days):.6g} * {promise.budget_ratio:.6g})"
    long, short, now = (promise.series(recorded.error_ratio(one)) for one in (pair.long, pair.short, pair.now))
    bad, least = promise.series(recorded.BAD_EVENTS), windows.least_bad_events
    counts = recorded.count(bad, pair.long, interval_s), f"{bad} * {seconds(recorded.BASE_WINDOW)}"
    burns = [f"{long} > {bound}", f"{short} > {bound}"]
    if pair.now != pair.short:
        burns.append(f"{now} > {windows.now_ratio:g} * {bound}")
    return "\nand\n".join([*burns, f"({' or '.join(f'{count} >= {least}' for count in counts)})"])
