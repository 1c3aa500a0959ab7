"""`penstock scale …`: the numbers of workers that the autoscaler decided, and why."""

from typing import Annotated
from urllib.parse import urlencode

import typer

from penstock.apps.settings import load
from penstock.cli import screen
from penstock.cli.caller import as_caller
from penstock.cli.terminal import AsJson
from penstock.domain.command_error import CommandError
from penstock.local.connections import operator
from penstock.views import scale as views

app = typer.Typer(no_args_is_help=True, help="Scaling: the number of workers of each version, and the reason.")


@app.command("status")
@as_caller
def status(*, as_json: AsJson = False) -> None:
    """Show each autoscaled version's worker count, the count that demand asks for, and the bound that limits it.

    For example: `penstock scale status`.
    """
    found = operator(load()).get("/scale")
    screen.tell(found, lambda: views.listed(found), as_json=as_json)


@app.command("explain")
@as_caller
def explain(
    version: Annotated[str, typer.Argument(help="The version, as name@digest.")], *, as_json: AsJson = False
) -> None:
    """Show the signals behind a version's last scaling decision, their ages, and the workers concerned.

    For example: `penstock scale explain smollm2@4f1c2d3e4a5b`.
    """
    found = operator(load()).get("/scale")
    one = next((one for one in found["versions"] if one["record"]["version"] == version), None)
    if one is None:
        raise CommandError(
            f"{version} is not autoscaled.", do="See penstock scale status; PENSTOCK_SCALE_FILE names the versions."
        )
    screen.tell(one, lambda: views.explained(found, one), as_json=as_json)


@app.command("history")
@as_caller
def history(
    version: Annotated[str, typer.Argument(help="Only this version.", show_default="all")] = "",
    *,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="The number of changes, newest first.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List the changes of worker counts since this controller became leader, newest first.

    Those of earlier leaders: `penstock explain --decisions`.

    For example: `penstock scale history --limit 10`.
    """
    query = urlencode({"version": version, "limit": limit})
    found = operator(load()).get(f"/scale/history?{query}")["records"]
    screen.tell({"records": found}, lambda: views.changes(found), as_json=as_json)
