"""Alerts for objectives without data, so that an unmeasured promise is noticed.

A gateway exports a tier's series from its first routing table on, with or without traffic. So absent series never mean
idleness: the last version of a tier was withdrawn, or the series are lost on their way.
"""

from penstock.slo import recorded
from penstock.slo.promise import Promise
from penstock.slo.rule import Alert
from penstock.slo.windows import Severity
from penstock.telemetry import names

REMEMBERED = "1d"
"""Time for which an objective that had data is expected to have some."""
PATIENCE = "15m"


def of(promise: Promise) -> Alert:
    series = promise.series(recorded.BAD_EVENTS)
    return Alert(
        name="PromiseWithoutData",
        expr=f"present_over_time({series}[{REMEMBERED}]) unless {series}",
        hold=PATIENCE,
        severity=Severity.TICKET,
        labels=promise.labels,
        summary=f"{promise.tier}: no data tells whether the objective {promise.objective} is met.",
        effect="Its series are gone: its alerts can't fire, and its error budget is unknown, not full.",
    )


def nothing_measured() -> Alert:
    return Alert(
        name="NoGatewayMeasured",
        expr=f"absent({names.TABLE_NUMBER.name})",
        hold="2m",
        severity=Severity.PAGE,
        summary="Prometheus sees no gateway.",
        effect="No promise is measured and no other alert of requests can fire; callers may get no answers at all.",
    )
