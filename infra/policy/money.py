"""A stack that costs more than its budget is not deployed by accident."""

from collections.abc import Iterator

from infra.estimate.report import estimate
from infra.policy.invariant import Book, Breach
from infra.policy.view import View

book = Book()


@book.rule("within-budget", "The stack's month at the size it keeps stays under the config's budget")
def within_budget(view: View) -> Iterator[Breach]:
    region = view.region if view.region_name else None
    month = estimate(view.fleet.environment, view.kind, view.graph, region)
    if not month.within:
        yield (
            None,
            f"{month.label} costs {month.usd:,.0f} a month, the budget is {month.budget_usd:,}: shrink or decide",
        )
