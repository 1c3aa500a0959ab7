"""`penstock slo …`: writes rules for Prometheus, and shows the state of the error budgets."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.terminal import out, tell_json

app = typer.Typer(no_args_is_help=True, help="Service level objectives: their rules, alerts and error budgets.")


@app.command("rules")
def write_rules(
    folder: Annotated[Path, typer.Argument(help="The folder of Prometheus's rules, as `rule_files` names it.")],
) -> None:
    """Write the recording rules and alerts of all SLOs, and the alerts on causes, as files for Prometheus.

    Older files of this command are replaced; other files in the folder stay.

    For example: `penstock slo rules /etc/prometheus/rules`
    """
    from penstock.apps import slos

    for path in slos.write_rules(folder):
        out.print(path, highlight=False, soft_wrap=True)


@app.command("alertmanager")
def write_alertmanager(
    page: Annotated[str, typer.Option(help="Webhook of pages, which wake a person.", show_default="nobody")] = "",
    ticket: Annotated[str, typer.Option(help="Webhook of tickets.", show_default="nobody")] = "",
    rollback: Annotated[
        str, typer.Option(help="Webhook of burn-rate alerts, for an automatic rollback.", show_default="nobody")
    ] = "",
) -> None:
    """Print a configuration for Alertmanager: pages and tickets, and the alerts that explain others.

    For example: `penstock slo alertmanager --page https://pager.example/hook > alertmanager.yaml`
    """
    from penstock.slo import files
    from penstock.slo.alertmanager import Receivers

    receivers = Receivers(page=page, ticket=ticket, rollback=rollback)
    out.print(files.alertmanager(receivers), end="", markup=False, highlight=False, soft_wrap=True)


@app.command("status")
def show_status(
    prometheus: Annotated[
        str, typer.Option(help="Address of a Prometheus with the rules.", show_default="of `penstock up --observe`")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Show each error budget: what is left, its burn rate, the forecast, and the pace of rollouts that follows.

    A burn of 1 spends a budget exactly within its period. `-` is unknown; fewer events than an alert waits for are too
    few for a verdict. Without a Prometheus the processes' own pages are read: no burn and no forecast. Rollouts check
    availability by the ledger, and the other promises by the controller's Prometheus (PENSTOCK_BUDGETS_URL).

    For example:

    * `penstock slo status`

    * `penstock slo status --prometheus http://prometheus:9090 --json`
    """
    from penstock.apps import observed, slos
    from penstock.cli import screen
    from penstock.settings import load
    from penstock.slo.policy import judge
    from penstock.views import error_budgets

    found = observed.budgets(load(), prometheus)
    verdict = judge(slos.policy(), found.for_rollouts)
    if as_json:
        tell_json(error_budgets.plain(found, verdict))
    else:
        screen.show(error_budgets.shown(found, verdict))
