"""`penstock privacy …`: the keys of what tenants store. For operators."""

from typing import Annotated

import typer

from penstock.apps.settings import load
from penstock.cli import screen
from penstock.cli.caller import as_caller
from penstock.cli.terminal import AsJson, out
from penstock.local.connections import operator
from penstock.views import privacy as views

app = typer.Typer(no_args_is_help=True, help="Privacy: keys of what tenants store.")
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
