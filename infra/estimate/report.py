"""The estimate as text, and whether each stack stays under the config's budget."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

from infra.catalogue.instances import sources
from infra.config.kinds import StackKind
from infra.config.model import Budgets, Environment, Fleet, Region
from infra.estimate.lines import Line, lines, prices
from infra.graph.nodes import Graph

SHOWN = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """One stack's month."""

    label: str
    budget_usd: int
    lines: tuple[Line, ...]

    @property
    def usd(self) -> float:
        """What the stack costs at the size it keeps."""
        return sum(line.usd for line in self.lines)

    @property
    def likely_usd(self) -> float:
        """What it costs at the sizes that are planned for."""
        return sum(line.likely_usd for line in self.lines)

    @property
    def most_usd(self) -> float:
        """What it costs with every pool at its maximum."""
        return sum(line.most_usd for line in self.lines)

    @property
    def within(self) -> bool:
        """Whether the kept size stays under the budget."""
        return self.usd <= self.budget_usd


def budget_of(budgets: Budgets, kind: StackKind) -> int:
    """The monthly ceiling of one stack of a kind."""
    ceilings = {
        StackKind.GLOBAL: budgets.global_usd,
        StackKind.REGION: budgets.region_usd,
        StackKind.PLATFORM: budgets.platform_usd,
        StackKind.SERVING: budgets.serving_usd,
        StackKind.MESH: budgets.mesh_usd,
    }
    return ceilings[kind]


def estimate(environment: Environment, kind: StackKind, graph: Graph, region: Region | None) -> Estimate:
    """The month of one captured stack."""
    label = f"{kind} {region.name}" if region else str(kind)
    found = sorted(lines(graph, region), key=lambda line: -line.most_usd)
    return Estimate(label=label, budget_usd=budget_of(environment.budgets, kind), lines=tuple(found))


def render(estimates: Iterable[Estimate]) -> str:
    """The estimates as a page of text, dearest lines first, with their sources."""
    found = list(estimates)
    page = ["Monthly estimate, USD, list prices of us-east-1, 730 h; of usage logs alone, as planned", ""]
    for one in found:
        verdict = "within" if one.within else "ABOVE"
        page.append(f"{one.label}: {_months(one)}; {verdict} budget {one.budget_usd:,}")
        page += [_row(line.usd, line.likely_usd, line.most_usd, line.what) for line in one.lines[:SHOWN]]
        if len(one.lines) > SHOWN:
            rest = one.lines[SHOWN:]
            more = Estimate(label=f"{len(rest)} smaller lines", budget_usd=0, lines=rest)
            page.append(_row(more.usd, more.likely_usd, more.most_usd, more.label))
    whole = Estimate(label="all stacks", budget_usd=0, lines=tuple(line for one in found for line in one.lines))
    page += ["", f"{whole.label}: {_months(whole)}"]
    page.append(f"instances: {sources()['price']}, {sources()['price_date']}")
    page.append(f"everything else: infra/catalogue/prices.yaml, read {prices()['read']}")
    return "\n".join(page)


def _months(one: Estimate) -> str:
    return f"{one.usd:,.0f} kept, {one.likely_usd:,.0f} likely, {one.most_usd:,.0f} at most"


def _row(usd: float, likely: float, most: float, what: str) -> str:
    return f"  {usd:>10,.2f}  {likely:>12,.2f}  {most:>12,.2f}  {what}"


def ending(fleet: Fleet, today: date) -> dict[str, int]:
    """The days that each capacity has left which is paid ahead; below zero it has ended."""
    return {
        f"{region.name} {pool.name} ({pool.reservation.id})": (
            date.fromisoformat(pool.reservation.expires) - today
        ).days
        for region in fleet.regions
        for pool in region.pools
        if pool.reservation
    }
