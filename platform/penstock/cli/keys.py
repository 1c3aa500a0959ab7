"""`penstock keys …`: API keys."""

from typing import Annotated

import typer

from penstock.cli import arguments, screen
from penstock.cli.caller import as_caller
from penstock.cli.terminal import AsJson, err, out, tell_json
from penstock.domain.tenancy.tenant import Role
from penstock.local.connections import operator
from penstock.settings import load
from penstock.views import tenants as views

app = typer.Typer(no_args_is_help=True, help="API keys: shown once when made, stored only as a keyed hash.")
ROLES = (
    "infer calls models. auditor reads its tenant's usage, keys, budgets and audit log. admin reads the same and "
    "manages its tenant's keys. Both use these commands with `--key` and `--url`. "
    "In the tenant operators, an auditor reads all tenants' data and an admin may do everything."
)
Id = Annotated[str, typer.Argument(help="A key's id: the part between `psk_` and the next `_`.")]


@app.command("create")
@as_caller
def create_key(
    tenant: Annotated[str, typer.Argument(help="The tenant that the key belongs to.")],
    role: Annotated[Role, typer.Option(help=ROLES)] = Role.INFER,
    model: Annotated[list[str] | None, typer.Option(help="Restrict the key to this alias; may be repeated.")] = None,
    expires_in_s: Annotated[float, typer.Option(help="Seconds until the key expires; 0 never.")] = 0.0,
    plan: Annotated[
        list[str] | None, typer.Option(help=f"A bound of this key alone; may be repeated. {arguments.CAPS_HELP}")
    ] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Make a key and show it, this one time.

    For example:

    * `penstock keys create demo`

    * `penstock keys create shop --model smollm2 --expires-in-s 86400`

    * `penstock keys create shop --plan requests_per_min=60 --plan spend_per_day=2.50`

    * `penstock keys create shop --role auditor` - reads the affairs of shop alone

    * `penstock keys create operators --role admin` - for another operator of the platform
    """
    body = {
        "tenant": tenant,
        "role": role,
        "models": model or [],
        "expires_in_s": expires_in_s,
        "plan": arguments.plan(plan or []),
    }
    _show_secret(operator(load()).post("/keys", body), as_json=as_json)


@app.command("list")
@as_caller
def list_keys(
    tenant: Annotated[str, typer.Argument(help="Only keys of this tenant.", show_default="all")] = "",
    *,
    as_json: AsJson = False,
) -> None:
    """List keys, never their secrets."""
    found = [key for key in operator(load()).get("/keys")["keys"] if tenant in {"", key["tenant"]}]
    screen.tell({"keys": found}, lambda: views.keys(found), as_json=as_json)


@app.command("plan")
@as_caller
def change_plan(
    key_id: Id, changes: Annotated[list[str], typer.Argument(help=f"Bounds of this key alone. {arguments.CAPS_HELP}")]
) -> None:
    """Change a key's own bounds; its tenant's bounds hold as well.

    For example: `penstock keys plan 1a2B3c4D5e6F requests_per_min=60 max_streams=4`
    """
    out.print(views.described(operator(load()).patch(f"/keys/{key_id}/plan", arguments.plan(changes))) or "no bounds")


@app.command("revoke")
@as_caller
def revoke_key(key_id: Id) -> None:
    """Revoke a key; every gateway refuses it within seconds."""
    operator(load()).post(f"/keys/{key_id}/revoke")
    out.print(f"{key_id} is revoked.")


@app.command("rotate")
@as_caller
def rotate_key(
    key_id: Id,
    overlap_s: Annotated[float, typer.Option("--overlap", help="Seconds for which the old key stays valid.")] = 3600.0,
    *,
    as_json: AsJson = False,
) -> None:
    """Make a key's successor and show it; the old key stays valid for the overlap."""
    made = operator(load()).post(f"/keys/{key_id}/rotate", {"overlap_s": overlap_s})
    _show_secret(made, as_json=as_json)


def _show_secret(answer: dict[str, object], *, as_json: bool) -> None:
    if as_json:
        tell_json(answer)
        return
    out.print(str(answer["secret"]), markup=False, highlight=False, soft_wrap=True)
    err.print(f"Its id is {answer['id']}. This is the only time the key is shown.", style="dim", highlight=False)
