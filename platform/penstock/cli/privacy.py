"""`penstock privacy …`: the keys of what tenants store, and its deletion. For operators."""

import time
from typing import Annotated, Any

import typer

from penstock.cli import screen
from penstock.cli.arguments import seconds
from penstock.cli.caller import as_caller
from penstock.cli.terminal import AsJson, out
from penstock.local.connections import operator
from penstock.settings import load
from penstock.views import privacy as views

app = typer.Typer(no_args_is_help=True, help="Privacy: keys of what tenants store, and its deletion.")
LOOK_S = 1.0
Tenant = Annotated[str, typer.Argument(help="A tenant's id.")]


@app.command("status")
@as_caller
def show_status(*, as_json: AsJson = False) -> None:
    """Show the key-encryption key, and how many tenants' keys each one wraps."""
    found = operator(load()).get("/privacy")
    screen.tell(found, lambda: views.status(found), as_json=as_json)


@app.command("rotate")
@as_caller
def rotate(tenant: Tenant) -> None:
    """Give a tenant new keys; what is stored still opens. They seal within five minutes.

    For example: `penstock privacy rotate shop`
    """
    operator(load()).post(f"/tenants/{tenant}/privacy/rotate")
    out.print(f"{tenant} has new keys; they seal within five minutes.", highlight=False)


@app.command("rewrap")
@as_caller
def rewrap() -> None:
    """Wrap all tenants' keys under the present key-encryption key, after an exchange of it or of the platform's key."""
    asks, keys = operator(load()), 0
    while number := asks.post("/privacy/rewrap")["keys"]:
        keys += number
    out.print(f"{keys} keys are wrapped anew.", highlight=False)


@app.command("delete")
@as_caller
def delete(  # noqa: PLR0913  one for each option
    tenant: Tenant,
    request: Annotated[
        str | None, typer.Option(help="Only the job, response, batch or file of this id, or a job's request.")
    ] = None,
    user: Annotated[
        str | None, typer.Option(help="Only requests with this user, safety_identifier or user_id.")
    ] = None,
    before: Annotated[str | None, typer.Option(help="Only what was stored before this UTC day or moment.")] = None,
    wait_s: Annotated[float, typer.Option(help="Seconds to wait for the receipt.", min=0)] = 120.0,
    *,
    everything: Annotated[bool, typer.Option("--everything", help="All that the tenant has stored.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete what a tenant has stored, and print the signed receipt. Ledger and audit log stay.

    With `--everything` the tenant's keys are shredded at once, so nothing of it opens any more, in backups either.
    It may be interrupted and asked for again: runners carry on, and the same deletion twice is one.

    For example: `penstock privacy delete shop --user u-1842`
    """
    until = None if before is None else seconds(before)
    asks, body = operator(load()), {"request": request, "user": user, "before": until, "everything": everything}
    found = asks.post(f"/tenants/{tenant}/privacy/delete", body)
    for _ in range(int(wait_s / LOOK_S)):
        if found["state"] == "done":
            break
        time.sleep(LOOK_S)
        found = asks.get(f"/privacy/deletions/{found['id']}")
    _show(found, as_json=as_json)


@app.command("receipt")
@as_caller
def receipt(deletion: Annotated[int, typer.Argument(help="A deletion's number.")], *, as_json: AsJson = False) -> None:
    """Show a deletion, and its signed receipt once it is done.

    For example: `penstock privacy receipt 7 --json | jq -r .receipt`
    """
    _show(operator(load()).get(f"/privacy/deletions/{deletion}"), as_json=as_json)


@app.command("deletions")
@as_caller
def list_deletions(
    tenant: Annotated[str, typer.Option(help="Only this tenant's.", show_default="all")] = "",
    *,
    as_json: AsJson = False,
) -> None:
    """List deletions, newest first."""
    found = operator(load()).get(f"/privacy/deletions?tenant={tenant}")
    screen.tell(found, lambda: [views.deletions(found["deletions"])], as_json=as_json)


def _show(found: dict[str, Any], *, as_json: bool) -> None:
    screen.tell(found, lambda: views.deletion(found), as_json=as_json)
