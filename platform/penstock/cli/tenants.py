"""`penstock tenants …` and `penstock orgs …`: tenants and organisations with their plans."""

from typing import Annotated

import typer

from penstock.cli import arguments, screen
from penstock.cli.caller import as_caller
from penstock.cli.terminal import AsJson, out
from penstock.domain.tenancy.tenant import Priority
from penstock.local.connections import operator
from penstock.settings import load
from penstock.views import tenants as views

app = typer.Typer(no_args_is_help=True, help="Tenants: owners of keys, limits and prefix caches.")
orgs = typer.Typer(no_args_is_help=True, help="Organisations: their bounds hold for all of their tenants together.")
Changes = Annotated[list[str], typer.Argument(help=arguments.PLAN_HELP)]
Caps = Annotated[list[str], typer.Argument(help=arguments.CAPS_HELP)]


@app.command("create")
@as_caller
def create_tenant(
    tenant: Annotated[str, typer.Argument(help="Its id, for example shop.")],
    name: Annotated[str, typer.Option(help="Its name for people; default: its id.")] = "",
    priority: Annotated[
        Priority, typer.Option(help="The priority class; higher ones are served first and refused last.")
    ] = Priority.STANDARD,
    weight: Annotated[int, typer.Option(min=1, help="Its share among tenants of the same priority class.")] = 1,
    org: Annotated[str, typer.Option(help="The organisation it belongs to.")] = "default",
    plan: Annotated[list[str] | None, typer.Option(help=f"A bound; may be repeated. {arguments.PLAN_HELP}")] = None,
) -> None:
    """Make a tenant. It has no key yet: `penstock keys create TENANT`.

    For example:

    * `penstock tenants create shop`

    * `penstock tenants create shop --priority interactive --plan tokens_per_min=20000 --plan spend_per_month=50`
    """
    wanted = {"priority": priority, "weight": weight, **arguments.plan(plan or [])}
    operator(load()).post("/tenants", {"id": tenant, "name": name or tenant, "plan": wanted, "org": org})
    out.print(f"{tenant} created; make it a key with `penstock keys create {tenant}`.")


@app.command("list")
@as_caller
def list_tenants(*, as_json: AsJson = False) -> None:
    """List tenants and their plans."""
    found = operator(load()).get("/tenants")
    screen.tell(found, lambda: views.listed(found["tenants"]), as_json=as_json)


@app.command("show")
@as_caller
def show_tenant(tenant: Annotated[str, typer.Argument(help="Its id.")], *, as_json: AsJson = False) -> None:
    """Show a tenant with every field of its plan; 0 is no bound.

    For example: `penstock tenants show demo`
    """
    found = operator(load()).get(f"/tenants/{tenant}")
    screen.tell(found, lambda: views.whole(found), as_json=as_json)


@app.command("plan")
@as_caller
def change_plan(tenant: Annotated[str, typer.Argument(help="Its id.")], changes: Changes) -> None:
    """Change a tenant's plan; other fields stay. Gateways have it within a second.

    For example: `penstock tenants plan shop requests_per_min=600 max_streams=20 deadline_s=30`
    """
    plan = operator(load()).patch(f"/tenants/{tenant}/plan", arguments.plan(changes))
    out.print(f"{tenant}: {views.described(plan) or 'no bounds'}", highlight=False)


@app.command("move")
@as_caller
def move_tenant(
    tenant: Annotated[str, typer.Argument(help="Its id.")],
    org: Annotated[str, typer.Argument(help="The organisation that it shall belong to.")],
) -> None:
    """Move a tenant to another organisation.

    The new organisation's bounds hold within a second, and its budgets count the tenant's spend of this day and month.

    For example: `penstock tenants move shop retail`
    """
    moved = operator(load()).put(f"/tenants/{tenant}/org", {"org": org})
    out.print(f"{moved['id']} belongs to {moved['org']}.", highlight=False)


@orgs.command("create")
@as_caller
def create_org(
    org: Annotated[str, typer.Argument(help="Its id, for example retail.")],
    name: Annotated[str, typer.Option(help="Its name for people; default: its id.")] = "",
    plan: Annotated[list[str] | None, typer.Option(help=f"A bound; may be repeated. {arguments.CAPS_HELP}")] = None,
) -> None:
    """Make an organisation; tenants join it with `penstock tenants create TENANT --org ORG`.

    For example: `penstock orgs create retail --plan spend_per_month=1000`
    """
    body = {"id": org, "name": name or org, "plan": arguments.plan(plan or [])}
    operator(load()).post("/orgs", body)
    out.print(f"{org} created.")


@orgs.command("list")
@as_caller
def list_orgs(*, as_json: AsJson = False) -> None:
    """List organisations and their bounds."""
    found = operator(load()).get("/orgs")
    screen.tell(found, lambda: views.organisations(found["orgs"]), as_json=as_json)


@orgs.command("plan")
@as_caller
def change_org(org: Annotated[str, typer.Argument(help="Its id.")], changes: Caps) -> None:
    """Change an organisation's bounds; other fields stay.

    For example: `penstock orgs plan retail tokens_per_min=1000000`
    """
    plan = operator(load()).patch(f"/orgs/{org}/plan", arguments.plan(changes))
    out.print(f"{org}: {views.described(plan) or 'no bounds'}", highlight=False)
