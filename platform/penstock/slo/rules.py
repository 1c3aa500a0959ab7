"""The pipeline from a tier's objectives over promises to groups of rules, as Prometheus reads them.

One group for each objective: its recordings, windows and alerts.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.domain.models.model import Tier
from penstock.domain.serving.slo import SloTier
from penstock.slo import absent, burning, recorded, recording
from penstock.slo.indicators import Unmeasurable, measure
from penstock.slo.promise import Promise
from penstock.slo.rule import Alert, Group, RecordingRule
from penstock.slo.windows import Windows

UNWATCHED = Group(name="slo-unwatched", interval_s=recorded.INTERVAL_S, rules=(absent.nothing_measured(),))


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFile:
    name: str
    groups: tuple[Group, ...]

    def plain(self) -> dict[str, object]:
        return {"groups": [group.plain() for group in self.groups]}


def files(tiers: Mapping[Tier, SloTier], windows: Windows) -> list[RuleFile]:
    """Return a file of rules for each tier, or raise ``Unmeasurable``."""
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
        *recording.of(promise, windows),
        *burning.of(promise, windows, interval_s),
        absent.of(promise),
    ]
    return Group(name=f"slo-{promise.tier}-{promise.objective}", interval_s=interval_s, rules=tuple(rules))


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
