"""What is left of the error budgets: as a Prometheus recorded it, or since the processes started, by their own pages.

Of a tier that nobody serves there is nothing to tell: it has no series, and had none within a day. Of few events there
is no verdict, as there is no alert.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import yaml

from penstock.apps import observed, rule_files, slos
from penstock.apps.settings import Settings
from penstock.apps.shipped import shipped
from penstock.connectors.prometheus.client import Prometheus
from penstock.connectors.prometheus.page import Reading
from penstock.domain.command_error import CommandError
from penstock.domain.serving.slo import Indicator, Objective, SloTier
from penstock.domain.serving.spec import SpecRefused
from penstock.slo import absent, budget, policy, recorded
from penstock.slo.budget import SHOWN, Budget, Seen
from penstock.slo.indicators import Selection, measure
from penstock.slo.policy import Policy
from penstock.telemetry.series import Sample

Ratios = Mapping[tuple[str, str, str], float | None]
"""Shares of bad events by tier, objective and recorded name."""
Counts = Mapping[tuple[str, str, str], Seen]
"""What was seen, by tier, objective and window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What a Prometheus recorded, and whose events are counted still."""

    ratios: Ratios
    counts: Counts
    counted: frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The budgets of the tiers that are served, and where and over which time they were counted."""

    source: str
    over: str
    budgets: tuple[Budget, ...]
    notes: tuple[str, ...] = ()
    heeded: bool = False
    """Rollouts heed all of these; else availability alone."""

    @property
    def for_rollouts(self) -> tuple[Budget, ...]:
        """Those that decide how versions may go out."""
        return tuple(one for one in self.budgets if self.heeded or one.objective == Indicator.AVAILABILITY)

    @property
    def unserved(self) -> tuple[str, ...]:
        """The promised tiers of which nothing is known, since nobody serves them."""
        return tuple(tier.value for tier in slos.load() if tier.value not in {one.tier for one in self.budgets})


def look(settings: Settings, given: str = "") -> Found:
    """Ask the Prometheus that was given, or set, or that this home runs; else read this home's pages."""
    found, heeded = observed.prometheus(settings, given), observed.heeded(settings)
    if found is None:
        return of_pages(observed.look(settings))
    return replace(of_prometheus(found), heeded=heeded is not None and heeded.url == found.url)


def known_policy() -> Policy:
    """Return the platform's own error budget policy."""
    path = shipped("slo_budget_policy.yaml", "slo/budget_policy.yaml")
    try:
        return policy.parse(yaml.safe_load(path.read_bytes()), path.name)
    except (yaml.YAMLError, SpecRefused) as error:
        raise CommandError(f"The error budget policy can't be read: {error}.", do=f"Correct {path}.") from error


def of_prometheus(prometheus: Prometheus) -> Found:
    """Return what a Prometheus with the platform's rules recorded."""
    windows = sorted({*SHOWN, *(f"{tier.window_days}d" for tier in slos.load().values())})
    every = recorded.error_ratio(f"({'|'.join(windows)})")
    told = prometheus.instant(f'{{__name__=~"{every}"}}')
    ratios = {(*_whose(one), one.labels["__name__"]): one.value for one in told}
    counted = frozenset(_whose(one) for one in prometheus.instant(recorded.BAD_EVENTS))
    remembered = prometheus.instant(f"present_over_time({recorded.BAD_EVENTS}[{absent.REMEMBERED}])")
    served = {tier for tier, _ in counted | {_whose(one) for one in remembered}}
    if not served:
        raise CommandError(
            f"The Prometheus at {prometheus.url} knows no promise.",
            do="Let it load the rules that `penstock slo rules FOLDER` writes, and wait a minute.",
        )
    record = Record(ratios=ratios, counts=_counts(prometheus, windows), counted=counted)
    budgets = [_recorded(tier, one, record) for tier, one in _promised(served)]
    return Found(source=f"Prometheus at {prometheus.url}", over="each promise's own period", budgets=tuple(budgets))


def of_pages(reading: Reading) -> Found:
    """Return what the processes counted since each of them started."""
    counts = {
        (tier.tier.value, one.indicator.value): _count(tier, one, reading)
        for tier in slos.load().values()
        for one in tier.objectives
    }
    served = {tier for (tier, _), found in counts.items() if found is not None}
    budgets = [_counted(tier, one, counts[tier.tier.value, one.indicator.value]) for tier, one in _promised(served)]
    return Found(
        source=f"{len(reading.pages)} processes of this home",
        over="the time since they started",
        budgets=tuple(budgets),
        notes=tuple(f"does not answer: {address}" for address in reading.silent),
    )


def _promised(served: set[str]) -> Iterable[tuple[SloTier, Objective]]:
    return ((tier, one) for name, tier in slos.load().items() if name.value in served for one in tier.objectives)


def _counts(prometheus: Prometheus, windows: Iterable[str]) -> Counts:
    found: dict[tuple[str, str, str], Seen] = {}
    for window in windows:
        bad, events = (
            {_whose(one): one.value for one in prometheus.instant(recorded.count(rate, window))}
            for rate in (recorded.BAD_EVENTS, recorded.EVENTS)
        )
        for whose, count in events.items():
            if count is not None and (wrong := bad.get(whose)) is not None:
                found[*whose, window] = Seen(bad=wrong, events=count)
    return found


def _recorded(tier: SloTier, objective: Objective, record: Record) -> Budget:
    """Return an objective's budget; where nobody counts any more, what was recorded before tells nothing of now."""
    whose, period = (tier.tier.value, objective.indicator.value), f"{tier.window_days}d"
    is_counted = whose in record.counted

    def burn(window: str) -> float | None:
        if not is_counted or _is_few(record.counts.get((*whose, window)), objective):
            return None
        return budget.burn(record.ratios.get((*whose, recorded.error_ratio(window))), objective.good_ratio)

    seen = record.counts.get((*whose, period)) if is_counted else None
    ratio = record.ratios.get((*whose, recorded.error_ratio(period))) if is_counted else None
    left = budget.left(ratio, objective.good_ratio, is_counted=is_counted)
    return _budget(tier, objective, left, {window: burn(window) for window in SHOWN}, seen)


def _counted(tier: SloTier, objective: Objective, seen: Seen | None) -> Budget:
    ratio = seen.bad / seen.events if seen and seen.events else None
    left = budget.left(ratio, objective.good_ratio, is_counted=seen is not None)
    return _budget(tier, objective, left, dict.fromkeys(SHOWN), seen)


def _count(tier: SloTier, objective: Objective, reading: Reading) -> Seen | None:
    """Return an objective's bad events and all of them by the counters themselves, None where there are none."""
    counts, count = measure(tier.tier.value, objective), partial(_sum, reading)
    events = count(counts.events)
    bad = counts.bad_count(count, events)
    return None if events is None or bad is None else Seen(bad=bad, events=events)


def _budget(
    tier: SloTier, objective: Objective, left: float | None, burns: Mapping[str, float | None], seen: Seen | None
) -> Budget:
    is_few = _is_few(seen, objective)
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


def _is_few(seen: Seen | None, objective: Objective) -> bool:
    """Tell whether events are too few to judge, by the number of bad ones that an alert waits for."""
    return seen is not None and seen.is_few(objective.good_ratio, rule_files.known_windows().least_bad_events)


def _sum(reading: Reading, selection: Selection) -> float | None:
    """Return the sum of the selected samples of all pages, None where there is none."""
    found = [
        one.value
        for page in reading.pages.values()
        for one in page.get(selection.series, ())
        if one.value is not None and selection.takes(selection.series, one.labels)
    ]
    return sum(found) if found else None


def _whose(sample: Sample) -> tuple[str, str]:
    return sample.labels.get(recorded.TIER, ""), sample.labels.get(recorded.OBJECTIVE, "")
