"""Was every promise kept? Objectives of ``slo/specs`` against a run's records: by tier, and by tenant.

Pure. What too few events say is unknown, never kept; a run whose generator was the bottleneck says nothing at all.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum

from loadtests.drive.records import Health, Record
from loadtests.plan.scenario import Mix, Scenario, Tenant
from loadtests.verdict import generator
from loadtests.verdict.events import Events, readers
from loadtests.verdict.generator import Generator
from penstock.domain.models.model import Tier
from penstock.domain.serving.slo import Indicator, Objective, SloTier

FEWEST_EVENTS = 20
"""Fewer keep no promise. They may break one: where it would be broken had all up to this number been good."""


class Finding(StrEnum):
    """What is to be said of one promise."""

    KEPT = "kept"
    BROKEN = "broken"
    UNKNOWN = "unknown"


class Exit(IntEnum):
    KEPT = 0
    BROKEN = 1
    SAYS_NOTHING = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One promise and what came of it; ``tenant`` is empty for a tier's judged tenants together."""

    tier: Tier
    tenant: str
    counts: bool
    """False for a tenant that decides nothing."""
    objective: Objective
    good: int
    bad: int

    @property
    def events(self) -> int:
        return self.good + self.bad

    @property
    def good_ratio(self) -> float | None:
        """The share of good events; None without events."""
        return self.good / self.events if self.events else None

    @property
    def finding(self) -> Finding:
        if self.bad > self.objective.error_budget_ratio * max(self.events, FEWEST_EVENTS) + 1e-9:
            return Finding.BROKEN
        return Finding.KEPT if self.events >= FEWEST_EVENTS else Finding.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """All findings of a run, and how its generator did."""

    judged: tuple[Judged, ...]
    generator: Generator

    @property
    def exit(self) -> Exit:
        """Return what the run says. A generator that was the bottleneck leaves no verdict."""
        if self.generator.faults:
            return Exit.SAYS_NOTHING
        if any(one.counts and one.finding is Finding.BROKEN for one in self.judged):
            return Exit.BROKEN
        whole = [one for one in self.judged if not one.tenant]
        known = bool(whole) and all(one.finding is Finding.KEPT for one in whole)
        return Exit.KEPT if known else Exit.SAYS_NOTHING

    @property
    def says(self) -> str:
        return {
            Exit.KEPT: "every promise was kept",
            Exit.BROKEN: "a promise was broken",
            Exit.SAYS_NOTHING: "this run says nothing",
        }[self.exit]

    @property
    def reasons(self) -> tuple[str, ...]:
        """Return why a run says nothing; empty if it says something."""
        if self.exit is not Exit.SAYS_NOTHING:
            return ()
        few = (
            f"{one.tier}: {one.objective.indicator} has {one.events} events, {FEWEST_EVENTS} are needed"
            for one in self.judged
            if not one.tenant and one.finding is Finding.UNKNOWN
        )
        return (*self.generator.faults, *few)


def judge(
    records: Sequence[Record], health: Health | None, scenario: Scenario, mix: Mix, promises: Mapping[Tier, SloTier]
) -> Verdict:
    tiers = [promises[tier] for tier in dict.fromkeys(tenant.tier for tenant in mix.tenants if tenant.judged)]
    events = readers(is_refusal_expected=scenario.refusals == "expected")
    findings = [one for tier in tiers for one in _of_tier(tier, mix, records, events)]
    return Verdict(judged=tuple(findings), generator=generator.judged(records, health, tiers))


def _of_tier(
    tier: SloTier, mix: Mix, records: Sequence[Record], events: Mapping[Indicator, Events]
) -> Iterator[Judged]:
    members = [tenant for tenant in mix.tenants if tenant.tier is tier.tier]
    judged = {tenant.name for tenant in members if tenant.judged}
    for objective in tier.objectives:
        yield _found(tier.tier, None, objective, [one for one in records if one.tenant in judged], events)
    for tenant in members if len(members) > 1 else ():
        for objective in tier.objectives:
            yield _found(tier.tier, tenant, objective, [one for one in records if one.tenant == tenant.name], events)


def _found(
    tier: Tier,
    tenant: Tenant | None,
    objective: Objective,
    records: Sequence[Record],
    events: Mapping[Indicator, Events],
) -> Judged:
    seen = [good for one in records for good in events[objective.indicator](one, objective.within_s)]
    return Judged(
        tier=tier,
        tenant=tenant.name if tenant else "",
        counts=tenant is None or tenant.judged,
        objective=objective,
        good=sum(seen),
        bad=len(seen) - sum(seen),
    )
