"""The series of each kind of objective: its events, and the bad ones.

Events are those that the platform could have served well: a caller's own faults are neither good nor bad, so a flood of
refused keys can't hide an outage. A bound in seconds must be a bucket's bound, since nothing can be counted between
buckets.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from penstock.domain.outcome import Outcome
from penstock.domain.serving.slo import Indicator, Objective
from penstock.telemetry import names
from penstock.telemetry.definitions import Label, Metric


class Unmeasurable(Exception):
    """An objective can't be measured; the message gives the reason, and a measurable alternative."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Series of one name with one of these values in each label."""

    series: str
    labels: Mapping[str, tuple[str, ...]]

    def query(self) -> str:
        return f"{self.series}{{{','.join(_matcher(label, values) for label, values in self.labels.items())}}}"

    def takes(self, series: str, labels: Mapping[str, str]) -> bool:
        return series == self.series and all(labels.get(label) in values for label, values in self.labels.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    events: Selection
    bad: Selection | None = None
    good: Selection | None = None

    def events_rate(self, window: str) -> str:
        return _rate(self.events, window)

    def bad_rate(self, window: str) -> str:
        if self.good is not None:
            return f"{_rate(self.events, window)} - {_rate(self.good, window)}"
        return _rate(self.bad or self.events, window)

    def bad_count(self, count: Callable[[Selection], float | None], events: float | None) -> float | None:
        if self.good is None:
            return count(self.bad or self.events)
        good = count(self.good)
        return None if events is None or good is None else events - good


def measure(tier: str, objective: Objective) -> Measure:
    if objective.indicator is Indicator.TURNAROUND:
        return _TURNAROUND
    if objective.indicator in _BY_OUTCOME:
        return _by_outcome(_BY_OUTCOME[objective.indicator], tier)
    return _by_time(_BY_TIME[objective.indicator], tier, objective)


_BY_OUTCOME = {Indicator.AVAILABILITY: names.TIER_REQUESTS, Indicator.STREAM_COMPLETION: names.TIER_STREAMS}
_BY_TIME = {
    Indicator.TTFT: names.VISIBLE_TTFT_SECONDS,
    Indicator.ITL: names.ITL_SECONDS,
    Indicator.LATENCY: names.REQUEST_SECONDS,
}
_OURS = tuple(sorted(one.value for one in Outcome if one.spends_error_budget))


def _jobs_ended(*outcomes: str) -> Selection:
    return Selection(series=f"{names.JOBS_ENDED.name}_total", labels={Label.OUTCOME: outcomes})


_TURNAROUND = Measure(events=_jobs_ended("done", "late", "dead_letter"), bad=_jobs_ended("late", "dead_letter"))


def _by_outcome(metric: Metric, tier: str) -> Measure:
    def ended(*outcomes: str) -> Selection:
        return Selection(series=f"{metric.name}_total", labels={Label.TIER: (tier,), Label.OUTCOME: outcomes})

    return Measure(events=ended(Outcome.OK.value, *_OURS), bad=ended(*_OURS))


def _by_time(metric: Metric, tier: str, objective: Objective) -> Measure:
    within_s = objective.within_s
    if within_s not in metric.buckets:
        nearest = sorted(sorted(metric.buckets, key=lambda bound: abs(bound - within_s))[:2])
        raise Unmeasurable(
            f"{tier}: {objective.indicator}.within_s: {within_s:g} is no bucket of {metric.name};"
            f" take {nearest[0]:g} or {nearest[1]:g}, or add the bucket to the catalogue"
        )
    return Measure(
        events=Selection(series=f"{metric.name}_count", labels={Label.TIER: (tier,)}),
        good=Selection(series=f"{metric.name}_bucket", labels={Label.TIER: (tier,), "le": (str(within_s),)}),
    )


def _rate(selection: Selection, window: str) -> str:
    return f"sum(rate({selection.query()}[{window}]))"


def _matcher(label: str, values: tuple[str, ...]) -> str:
    return f'{label}="{values[0]}"' if len(values) == 1 else f'{label}=~"{"|".join(values)}"'
