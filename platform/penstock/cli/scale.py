"""`penstock scale …`: the numbers of workers that the autoscaler decided, and why."""

from typing import Annotated
from urllib.parse import urlencode

import typer

from penstock.cli import screen
from penstock.cli.arguments import length
from penstock.cli.caller import as_caller
from penstock.cli.terminal import AsJson, out
from penstock.domain.command_error import CommandError
from penstock.local.connections import operator
from penstock.settings import load
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


@app.command("set")
@as_caller
def override(
    version: Annotated[str, typer.Argument(help="The version, as name@digest.")],
    workers: Annotated[int, typer.Argument(min=1, help="Its worker count.")],
    *,
    lasts: Annotated[str, typer.Option("--for", help="How long it holds, for example 90m or 8h; at most seven days.")],
    reason: Annotated[str, typer.Option(help="The reason, for the audit log.")],
) -> None:
    """Override an autoscaled version's worker count for some time: demand does not change it until then.

    For example: `penstock scale set smollm2@4f1c2d3e4a5b 4 --for 8h --reason "a launch at noon"`.
    """
    body = {"workers": workers, "for_s": length(lasts), "reason": reason}
    found = operator(load()).put(f"/scale/{version}/override", body)["override"]
    screen.show(views.overridden(version, found))


@app.command("clear")
@as_caller
def clear(version: Annotated[str, typer.Argument(help="The version, as name@digest.")]) -> None:
    """End an override now: demand decides the worker count again.

    For example: `penstock scale clear smollm2@4f1c2d3e4a5b`.
    """
    operator(load()).delete(f"/scale/{version}/override")
    out.print(f"{version}: demand decides its worker count again", highlight=False)


@app.command("history")
@as_caller
def history(
    version: Annotated[str, typer.Argument(help="Only this version.", show_default="all")] = "",
    *,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="The number of changes, newest first.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List the changes of worker counts and overrides, newest first, of earlier leaders too.

    For example: `penstock scale history --limit 10`.
    """
    query = urlencode({"version": version, "limit": limit})
    found = operator(load()).get(f"/scale/history?{query}")["records"]
    screen.tell({"records": found}, lambda: views.changes(found), as_json=as_json)
