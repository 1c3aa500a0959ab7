"""`penstock explain`: the life of a request, and the controller's decisions."""

from typing import Annotated

import typer

from penstock.cli import screen
from penstock.cli.caller import as_caller
from penstock.cli.terminal import tell_json
from penstock.domain.command_error import CommandError
from penstock.local.connections import gateway_address, operator, reading_key
from penstock.settings import load
from penstock.views import records as views

MOST = 1000


@as_caller
def explain(
    request_id: Annotated[
        str,
        typer.Argument(
            help="The request's id: from the answer's header x-request-id, its body or the log.", show_default=False
        ),
    ] = "",
    decisions: Annotated[
        bool, typer.Option("--decisions", help="Show the controller's decisions instead of a request.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, max=MOST, help="The number of decisions, newest first.")] = 50,
    gateway: Annotated[
        list[str] | None,
        typer.Option(
            help="A gateway's address, or a name with several addresses; may be repeated.", show_default="this home's"
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The whole record as JSON.")] = False,
) -> None:
    """Tell the life of an ended request: waits, limits, workers, tokens, price, promises.

    A key sees its own requests, a tenant's admins and auditors the tenant's, operators all. With `--decisions`
    operators see the controller's changes, each with its signal and objective.

    For example:

    * `penstock explain req-5f2c90aa1b7d4e63`

    * `penstock explain req-5f2c90aa1b7d4e63 --key psk_… --gateway https://api.example.com --json | jq .attempts`

    * `penstock explain --decisions --limit 10`
    """
    if decisions:
        _decisions(limit, as_json=as_json)
    elif request_id:
        _request(request_id, gateway or [], as_json=as_json)
    else:
        raise CommandError("There is nothing to explain.", do="Give a request's id, or --decisions.")


def _request(request_id: str, gateways: list[str], *, as_json: bool) -> None:
    from penstock.clients import records

    settings = load()
    found = records.find(gateways or [gateway_address(settings)], reading_key(settings), request_id)
    if as_json:
        tell_json(found)
        return
    screen.show(views.request(found))


def _decisions(limit: int, *, as_json: bool) -> None:
    found = operator(load()).get(f"/decisions?limit={limit}")["decisions"]
    if as_json:
        for one in found:
            tell_json({"at": one["at"], **one["decision"]})
        return
    screen.show(views.decisions(found))
