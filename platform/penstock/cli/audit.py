"""`penstock audit`: administrative acts; a tenant's own keys see those of their tenant."""

from typing import Annotated
from urllib.parse import urlencode

import typer

from penstock.apps.settings import load
from penstock.cli import screen
from penstock.cli.arguments import seconds
from penstock.cli.caller import as_caller
from penstock.cli.terminal import tell_json
from penstock.local.connections import operator
from penstock.views import tenants as views

MOST = 1000


@as_caller
def audit(
    since: Annotated[str, typer.Option(help="From this UTC day or moment on.", show_default="the beginning")] = "",
    until: Annotated[str, typer.Option(help="Before this UTC day or moment.", show_default="now")] = "",
    actor: Annotated[str, typer.Option(help="Only acts of this key id, or of `platform`.", show_default="all")] = "",
    action: Annotated[
        str,
        typer.Option(
            help="Only acts of this kind, such as `key.revoke`, or `key` for all about keys.", show_default="all"
        ),
    ] = "",
    limit: Annotated[int, typer.Option(min=1, max=MOST, help="The number of acts, newest first.")] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line; times in Unix seconds.")] = False,
) -> None:
    """List administrative acts, newest first.

    A tenant's admins and auditors see those of their tenant, operators all.

    For example:

    * `penstock audit --since 2026-11-01 --action key`

    * `PENSTOCK_KEY=psk_… penstock audit --url http://127.0.0.1:8079 --json | jq .what`
    """
    wanted = {"since": seconds(since), "until": seconds(until), "who": actor, "what": action, "limit": limit}
    acts = operator(load()).get(f"/audit?{urlencode(wanted)}")["acts"]
    if as_json:
        for act in acts:
            tell_json(act)
        return
    screen.show(views.acts(acts))
