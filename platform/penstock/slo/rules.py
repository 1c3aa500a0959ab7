"""The pipeline from a tier's objectives to groups of rules for Prometheus.

One group for each objective: its recordings, windows and alerts.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.domain.models.model import Tier
from penstock.domain.serving.slo import SloTier
from penstock.slo import burning, recorded
from penstock.slo.indicators import Unmeasurable, measure
from penstock.slo.recorded import Promise
from penstock.slo.rule import Alert, Group, RecordingRule
from penstock.slo.windows import Severity, Windows
from penstock.telemetry import names

REMEMBERED = "1d"
"""Time for which an objective that had data is expected to have some."""
PATIENCE = "15m"
_NOTHING_MEASURED = Alert(
    name="NoGatewayMeasured",
    expr=f"absent({names.TABLE_NUMBER.name})",
    hold="2m",
    severity=Severity.PAGE,
    summary="Prometheus sees no gateway.",
    effect="No promise is measured and no other alert of requests can fire; callers may get no answers at all.",
)
UNWATCHED = Group(name="slo-unwatched", interval_s=recorded.INTERVAL_S, rules=(_NOTHING_MEASURED,))


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFile:
    name: str
    groups: tuple[Group, ...]

    def plain(self) -> dict[str, object]:
        return {"groups": [group.plain() for group in self.groups]}


def files(tiers: Mapping[Tier, SloTier], windows: Windows) -> list[RuleFile]:
    of_tiers = [
        RuleFile(name=f"slo-{tier.tier}.yaml", groups=groups(promises(tier), windows)) for tier in tiers.values()
    ]
    return [RuleFile(name="slo.yaml", groups=(UNWATCHED,)), *of_tiers]


def promises(tier: SloTier) -> list[Promise]:
    return [
        Promise(
            tier=tier.tier.value,
            objective=objective.indicator.value,
            says=objective.says,
            budget_ratio=objective.error_budget_ratio,
            period_days=tier.window_days,
            measure=measure(tier.tier.value, objective),
        )
        for objective in tier.objectives
    ]


def groups(promised: Iterable[Promise], windows: Windows, interval_s: int = recorded.INTERVAL_S) -> tuple[Group, ...]:
    return tuple(_group(promise, windows, interval_s) for promise in promised)


def _group(promise: Promise, windows: Windows, interval_s: int) -> Group:
    _check(promise, windows)
    rules: list[RecordingRule | Alert] = [
        *_recordings(promise, windows),
        *burning.of(promise, windows, interval_s),
        _without_data(promise),
    ]
    return Group(name=f"slo-{promise.tier}-{promise.objective}", interval_s=interval_s, rules=tuple(rules))


def _recordings(promise: Promise, windows: Windows) -> list[RecordingRule]:
    """Return one promise's recording rules: events, the share of bad ones over each window, the budget's rest.

    The platform's counters are read over five minutes only; longer windows sum the recorded rates. That is cheap over
    days, weighs each event equally whatever the traffic, and survives restarts of gateways.
    """
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


def _check(promise: Promise, windows: Windows) -> None:
    if promise.period_days not in windows.periods_days:
        known = " or ".join(str(days) for days in windows.periods_days)
        raise Unmeasurable(f"{promise.tier}: window_days: no windows are known for {promise.period_days}; take {known}")
    for pair in windows.pairs:
        bound = promise.threshold(pair)
        if bound >= 1:
            raise Unmeasurable(
                f"{promise.tier}: {promise.objective}.good_ratio: {1 - promise.budget_ratio:g} is too low for the alert"
                f" over {pair.long}: it would need {bound:.0%} bad events; promise more than"
                f" {1 - 1 / pair.factor(promise.period_days):.3f}"
            )


def _without_data(promise: Promise) -> Alert:
    """Alert on an absent series: a gateway exports a tier's from its first table on, even without traffic."""
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
