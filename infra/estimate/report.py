"""The estimate as text, and whether each stack stays under the config's budget."""

from collections.abc import Iterable
from dataclasses import dataclass

from infra.catalogue.instances import sources
from infra.config.kinds import StackKind
from infra.config.model import Budgets, Environment, Region
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
    page = ["Monthly estimate, USD, list prices of us-east-1, 730 h; usage and data transfer not included", ""]
    for one in found:
        verdict = "within" if one.within else "ABOVE"
        page.append(
            f"{one.label}: {one.usd:,.0f} kept, {one.most_usd:,.0f} at most; {verdict} budget {one.budget_usd:,}"
        )
        page += [f"  {line.usd:>10,.2f}  {line.most_usd:>12,.2f}  {line.what}" for line in one.lines[:SHOWN]]
        if len(one.lines) > SHOWN:
            rest = one.lines[SHOWN:]
            usd, most = sum(line.usd for line in rest), sum(line.most_usd for line in rest)
            page.append(f"  {usd:>10,.2f}  {most:>12,.2f}  {len(rest)} smaller lines")
    kept, most = sum(one.usd for one in found), sum(one.most_usd for one in found)
    page += ["", f"all stacks: {kept:,.0f} kept, {most:,.0f} at most"]
    page.append(f"instances: {sources()['price']}, {sources()['price_date']}")
    page.append(f"everything else: infra/catalogue/prices.yaml, read {prices()['read']}")
    return "\n".join(page)
