"""Recording rules of one promise: events, the share of bad ones over each window, and the budget's rest.

The platform's counters are read over five minutes alone; longer windows add up the recorded rates. That costs little
over days, weighs each event alike whatever the traffic, and outlives a gateway's counters. Without events there is no
share: unknown is never 0.
"""

from penstock.slo import recorded
from penstock.slo.promise import Promise
from penstock.slo.rule import RecordingRule
from penstock.slo.windows import Windows


def of(promise: Promise, windows: Windows) -> list[RecordingRule]:
    period = f"{promise.period_days}d"
    left = f"1 - {promise.series(recorded.error_ratio(period))} / {promise.series(recorded.BUDGET)}"
    return [
        _record(promise, recorded.EVENTS, promise.measure.events_rate(recorded.BASE_WINDOW)),
        _record(promise, recorded.BAD_EVENTS, promise.measure.bad_rate(recorded.BASE_WINDOW)),
        _record(promise, recorded.BUDGET, f"vector({promise.budget_ratio:.6g})"),
        *(_error_ratio(promise, window) for window in (*windows.lengths, period)),
        _record(promise, recorded.BUDGET_LEFT, left),
    ]


def _error_ratio(promise: Promise, window: str) -> RecordingRule:
    bad, events = (_sum(promise.series(series), window) for series in (recorded.BAD_EVENTS, recorded.EVENTS))
    return _record(promise, recorded.error_ratio(window), f"{bad} / ({events} > 0)")


def _sum(series: str, window: str) -> str:
    return series if window == recorded.BASE_WINDOW else f"sum_over_time({series}[{window}])"


def _record(promise: Promise, series: str, expr: str) -> RecordingRule:
    return RecordingRule(record=series, expr=expr, labels=promise.labels)
