"""`penstock keys …` and `penstock tenants …`: who may call."""

from typing import Annotated

import typer

from penstock.apps.cli import tables
from penstock.apps.cli.terminal import err, explained, out
from penstock.apps.operator_client import Operator
from penstock.apps.settings import load

app = typer.Typer(no_args_is_help=True, help="API keys: shown once when made, stored only as a keyed hash.")
tenants = typer.Typer(no_args_is_help=True, help="Tenants: who keys, limits and prefix caches belong to.")
Id = Annotated[str, typer.Argument(help="A key's id: the part between `psk_` and the next `_`.")]


@app.command("create")
def create_key(
    tenant: Annotated[str, typer.Argument(help="Whose key it is.")],
    admin: Annotated[bool, typer.Option(help="A key for operators instead of for callers.")] = False,
    model: Annotated[list[str] | None, typer.Option(help="Only for this alias; may be repeated.")] = None,
    expires_in_s: Annotated[float, typer.Option(help="End by itself after so many seconds; 0 never.")] = 0.0,
) -> None:
    """Make a key and show it, this one time.

    For example:

    * `penstock keys create demo`

    * `penstock keys create shop --model smollm2 --expires-in-s 86400`
    """
    with explained():
        body = {
            "tenant": tenant,
            "role": "admin" if admin else "infer",
            "models": model or [],
            "expires_in_s": expires_in_s,
        }
        _show_secret(Operator(load()).post("/keys", body))


@app.command("list")
def list_keys(tenant: Annotated[str, typer.Argument(help="Only this tenant's.", show_default="all")] = "") -> None:
    """List keys, never their secrets."""
    with explained():
        found = Operator(load()).get("/keys")["keys"]
        rows = [
            (
                key["id"],
                key["tenant"],
                key["role"],
                ", ".join(key["models"]) or "all",
                tables.when(key["created_at"]),
                tables.when(key["expires_at"]),
                tables.when(key["revoked_at"]),
            )
            for key in found
            if not tenant or key["tenant"] == tenant
        ]
        tables.show("Keys", ("id", "tenant", "role", "models", "created", "expires", "revoked"), rows)


@app.command("revoke")
def revoke_key(key_id: Id) -> None:
    """Make a key worthless within seconds, on every gateway."""
    with explained():
        Operator(load()).post(f"/keys/{key_id}/revoke")
        out.print(f"{key_id} is revoked.")


@app.command("rotate")
def rotate_key(
    key_id: Id,
    overlap_s: Annotated[float, typer.Option("--overlap", help="Seconds for which the old key works on.")] = 3600.0,
) -> None:
    """Make a key's successor and show it; the old one works on for a while, so that callers can change over."""
    with explained():
        _show_secret(Operator(load()).post(f"/keys/{key_id}/rotate", {"overlap_s": overlap_s}))


@tenants.command("create")
def create_tenant(
    tenant: Annotated[str, typer.Argument(help="Its id, for example shop.")],
    name: Annotated[str, typer.Option(help="Its name for people; the id where silent.")] = "",
    priority: Annotated[str, typer.Option(help="interactive, standard or batch.")] = "standard",
    weight: Annotated[int, typer.Option(min=1, help="Its share among tenants of the same class.")] = 1,
) -> None:
    """Make a tenant. It has no key yet: `penstock keys create TENANT`."""
    with explained():
        plan = {"priority": priority, "weight": weight}
        Operator(load()).post("/tenants", {"id": tenant, "name": name or tenant, "plan": plan})
        out.print(f"{tenant} exists; make it a key with `penstock keys create {tenant}`.")


@tenants.command("list")
def list_tenants() -> None:
    """List tenants and their plans."""
    with explained():
        found = Operator(load()).get("/tenants")["tenants"]
        rows = [(one["id"], one["name"], one["plan"]["priority"], one["plan"]["weight"]) for one in found]
        tables.show("Tenants", ("id", "name", "priority", "weight"), rows)


def _show_secret(answer: dict[str, object]) -> None:
    """The secret alone goes to the standard output, so that a script can take it."""
    out.print(str(answer["secret"]), markup=False, highlight=False, soft_wrap=True)
    err.print("This is the only time the key is shown.", style="dim")
