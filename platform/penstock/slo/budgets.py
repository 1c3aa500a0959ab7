"""Error budgets of the tiers that are served, from one of three sources.

* recorded: by a Prometheus with the platform's rules, each over the objective's own period;
* counted: from the processes' own metrics pages, since each process started;
* ledger: from the outcomes of requests, which give availability and no times.

A tier without series within a day is not served and has no budget.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from penstock.domain.command_error import CommandError
from penstock.domain.models.model import Tier
from penstock.domain.outcome import Outcome
from penstock.domain.serving.slo import Indicator, Objective, SloTier
from penstock.domain.tenancy.ledger import Ended
from penstock.slo import budget, recorded, rules
from penstock.slo.budget import SHOWN, Budget, EventCounts
from penstock.slo.indicators import Selection, measure
from penstock.telemetry.series import Sample

Page = Mapping[str, tuple[Sample, ...]]
"""One process's samples by full name."""
_Objective = tuple[str, str]
"""The names of a tier and of its objective."""


class Recorder(Protocol):
    url: str

    def instant(self, query: str) -> Sequence[Sample]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Promised:
    tiers: Mapping[Tier, SloTier]
    least_bad_events: int

    def of(self, served: set[str]) -> list[tuple[SloTier, Objective]]:
        return [(tier, one) for name, tier in self.tiers.items() if name.value in served for one in tier.objectives]

    def unserved(self, served: set[str]) -> tuple[str, ...]:
        return tuple(tier.value for tier in self.tiers if tier.value not in served)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorBudgets:
    source: str
    over: str
    budgets: tuple[Budget, ...]
    unserved: tuple[str, ...] = ()
    """Promised tiers without any data."""
    notes: tuple[str, ...] = ()
    heeded: bool = False
    """Whether rollouts consider all of these budgets; otherwise only availability."""

    @property
    def for_rollouts(self) -> tuple[Budget, ...]:
        return tuple(one for one in self.budgets if self.heeded or one.objective == Indicator.AVAILABILITY)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    ratios: Mapping[tuple[str, str, str], float | None]
    counts: Mapping[tuple[str, str, str], EventCounts]
    counted: frozenset[_Objective]


def of_prometheus(prometheus: Recorder, promised: Promised) -> ErrorBudgets:
    windows = sorted({*SHOWN, *(f"{tier.window_days}d" for tier in promised.tiers.values())})
    every = recorded.error_ratio(f"({'|'.join(windows)})")
    told = prometheus.instant(f'{{__name__=~"{every}"}}')
    ratios = {(*_objective(one), one.labels["__name__"]): one.value for one in told}
    counted = frozenset(map(_objective, prometheus.instant(recorded.BAD_EVENTS)))
    remembered = prometheus.instant(f"present_over_time({recorded.BAD_EVENTS}[{rules.REMEMBERED}])")
    served = {tier for tier, _ in counted | set(map(_objective, remembered))}
    if not served:
        raise CommandError(
            f"The Prometheus at {prometheus.url} has no recorded promises.",
            do="Let it load the rules that `penstock slo rules FOLDER` writes, and wait a minute.",
        )
    record = _Record(ratios=ratios, counts=_counts(prometheus, windows), counted=counted)
    return ErrorBudgets(
        source=f"Prometheus at {prometheus.url}",
        over="each promise's own period",
        budgets=tuple(_recorded(tier, one, record, promised) for tier, one in promised.of(served)),
        unserved=promised.unserved(served),
    )


def of_pages(pages: Mapping[str, Page], silent: Sequence[str], promised: Promised) -> ErrorBudgets:
    """Return the budgets from the processes' counters; ``silent`` addresses did not answer."""
    counts = {
        (tier.tier.value, one.indicator.value): _count(tier, one, pages.values())
        for tier in promised.tiers.values()
        for one in tier.objectives
    }
    served = {tier for (tier, _), found in counts.items() if found is not None}
    return ErrorBudgets(
        source=f"{len(pages)} processes of this home",
        over="the time since they started",
        budgets=tuple(
            _counted(tier, one, counts[tier.tier.value, one.indicator.value], promised)
            for tier, one in promised.of(served)
        ),
        unserved=promised.unserved(served),
        notes=tuple(f"does not answer: {address}" for address in silent),
    )


def availability(tier: SloTier, ended: Iterable[Ended], promised: Promised) -> tuple[Budget, ...]:
    objective = tier.objective(Indicator.AVAILABILITY)
    if objective is None:
        return ()
    counted = [one for one in ended if one.outcome is Outcome.OK or one.outcome.spends_error_budget]
    bad = sum(one.requests for one in counted if one.outcome is not Outcome.OK)
    seen = EventCounts(bad=bad, events=sum(one.requests for one in counted))
    return (_budget(tier, objective, _left(objective, seen), {}, seen, promised),)


def _counts(prometheus: Recorder, windows: Iterable[str]) -> Mapping[tuple[str, str, str], EventCounts]:
    found: dict[tuple[str, str, str], EventCounts] = {}
    for window in windows:
        bad, events = (
            {_objective(one): one.value for one in prometheus.instant(recorded.count(rate, window))}
            for rate in (recorded.BAD_EVENTS, recorded.EVENTS)
        )
        for objective, count in events.items():
            if count is not None and (wrong := bad.get(objective)) is not None:
                found[*objective, window] = EventCounts(bad=wrong, events=count)
    return found


def _recorded(tier: SloTier, objective: Objective, record: _Record, promised: Promised) -> Budget:
    name, period = (tier.tier.value, objective.indicator.value), f"{tier.window_days}d"
    is_counted = name in record.counted

    def burn(window: str) -> float | None:
        if not is_counted or _is_few(record.counts.get((*name, window)), objective, promised):
            return None
        return budget.burn(record.ratios.get((*name, recorded.error_ratio(window))), objective.good_ratio)

    seen = record.counts.get((*name, period)) if is_counted else None
    ratio = record.ratios.get((*name, recorded.error_ratio(period))) if is_counted else None
    left = budget.left(ratio, objective.good_ratio, is_counted=is_counted)
    return _budget(tier, objective, left, {window: burn(window) for window in SHOWN}, seen, promised)


def _counted(tier: SloTier, objective: Objective, seen: EventCounts | None, promised: Promised) -> Budget:
    return _budget(tier, objective, _left(objective, seen), dict.fromkeys(SHOWN), seen, promised)


def _left(objective: Objective, seen: EventCounts | None) -> float | None:
    ratio = seen.bad / seen.events if seen and seen.events else None
    return budget.left(ratio, objective.good_ratio, is_counted=seen is not None)


def _count(tier: SloTier, objective: Objective, pages: Iterable[Page]) -> EventCounts | None:
    counts, count = measure(tier.tier.value, objective), partial(_sum, tuple(pages))
    events = count(counts.events)
    bad = counts.bad_count(count, events)
    return None if events is None or bad is None else EventCounts(bad=bad, events=events)


def _budget(
    tier: SloTier,
    objective: Objective,
    left: float | None,
    burns: Mapping[str, float | None],
    seen: EventCounts | None,
    promised: Promised,
) -> Budget:
    is_few = _is_few(seen, objective, promised)
    return Budget(
        tier=tier.tier.value,
        objective=objective.indicator.value,
        good_ratio=objective.good_ratio,
        period_days=tier.window_days,
        left_ratio=None if is_few else left,
        burns=burns,
        seen=seen,
        is_few=is_few,
    )


def _is_few(seen: EventCounts | None, objective: Objective, promised: Promised) -> bool:
    return seen is not None and seen.is_few(objective.good_ratio, promised.least_bad_events)


def _sum(pages: Sequence[Page], selection: Selection) -> float | None:
    found = [
        one.value
        for page in pages
        for one in page.get(selection.series, ())
        if one.value is not None and selection.takes(selection.series, one.labels)
    ]
    return sum(found) if found else None


def _objective(sample: Sample) -> _Objective:
    return sample.labels.get(recorded.TIER, ""), sample.labels.get(recorded.OBJECTIVE, "")
