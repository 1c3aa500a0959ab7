"""`penstock budgets …`: spend caps of a day and a month, and the spend."""

from typing import Annotated

import typer

from penstock.cli import screen
from penstock.cli.arguments import micro_usd
from penstock.cli.caller import as_caller
from penstock.cli.terminal import AsJson, out
from penstock.domain.command_error import CommandError
from penstock.local.connections import operator
from penstock.settings import load
from penstock.views import tenants as views
from penstock.views.words import dollars

app = typer.Typer(
    no_args_is_help=True, help="Budgets: spend caps of keys, tenants and organisations; days and months are UTC."
)


@app.command("show")
@as_caller
def show_budgets(
    scope: Annotated[
        str, typer.Argument(help="Only this scope, such as tenant:shop or shop.", show_default="all")
    ] = "",
    *,
    as_json: AsJson = False,
) -> None:
    """Show the spend of each budget in the present day and month, the fullest first.

    For example: `penstock budgets show`, or `penstock budgets show org:retail`.
    """
    lines = operator(load()).get("/budgets")["budgets"]
    names = [(one, {"", one["scope"], one["scope"].partition(":")[2]}) for one in lines]
    found = [one for one, known in names if scope in known]
    screen.tell({"budgets": found}, lambda: views.budgets(found), as_json=as_json)


@app.command("set")
@as_caller
def set_budget(
    scope: Annotated[str, typer.Argument(help="The budget's scope: key:ID, tenant:ID or org:ID.")],
    per_day: Annotated[str, typer.Option(help="Dollars a day; 0 removes the cap.", show_default="as it is")] = "",
    per_month: Annotated[str, typer.Option(help="Dollars a month; 0 likewise.", show_default="as it is")] = "",
) -> None:
    """Cap the spend of a key, tenant or organisation. Earlier spend of the present day or month counts.

    For example:

    * `penstock budgets set tenant:shop --per-day 5 --per-month 100`

    * `penstock budgets set key:1a2B3c4D5e6F --per-day 0.25`
    """
    kind, _, name = scope.partition(":")
    if not name:
        raise CommandError(f"{scope!r} is not a budget's scope.", do="Give key:ID, tenant:ID or org:ID.")
    given = {"spend_per_day": per_day, "spend_per_month": per_month}
    caps = {field: micro_usd(amount) for field, amount in given.items() if amount}
    if not caps:
        raise CommandError("There is nothing to set.", do="Give --per-day or --per-month.")
    plan = operator(load()).patch(f"/budgets/{kind}/{name}", caps)
    day, month = (dollars(plan[field]) for field in given)
    out.print(f"{scope}: ${day} a day, ${month} a month (0.00: no cap).", highlight=False)
