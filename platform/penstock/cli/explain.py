"""`penstock explain`: why a request was as it was, and why the controller did what it did."""

import json
from typing import Annotated, Any

import typer

from penstock.apps.connections import gateway_address, operator, reading_key
from penstock.apps.settings import load
from penstock.cli import tables
from penstock.cli.caller import as_caller
from penstock.cli.terminal import explained, out
from penstock.domain.command_error import CommandError

WIDTH = 44
"""Columns of the timeline's bars."""
MOST = 1000


@as_caller
def explain(
    request_id: Annotated[
        str,
        typer.Argument(help="As the answer's header x-request-id, its body or the log says it.", show_default=False),
    ] = "",
    decisions: Annotated[bool, typer.Option("--decisions", help="Of the controller, instead of a request.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=MOST, help="So many of the newest decisions.")] = 50,
    gateway: Annotated[
        list[str] | None,
        typer.Option(help="A gateway's address; a name of many addresses, or several.", show_default="this home's"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Everything that is kept, as JSON.")] = False,
) -> None:
    """Tell the life of a request that has ended: waits, limits, workers, tokens, price, promises.

    A key sees its own requests, a tenant's admins and auditors the tenant's, operators all. With `--decisions` tell
    operators what the controller changed, from which signal, against which objective.

    For example:

    * `penstock explain req-5f2c90aa1b7d4e63`

    * `penstock explain req-5f2c90aa1b7d4e63 --key psk_… --gateway https://api.example.com --json | jq .attempts`

    * `penstock explain --decisions --limit 10`
    """
    with explained():
        if decisions:
            _decisions(limit, as_json=as_json)
        elif request_id:
            _request(request_id, gateway or [], as_json=as_json)
        else:
            raise CommandError("Nothing was named.", do="Give a request's id, or --decisions.")


def _request(request_id: str, gateways: list[str], *, as_json: bool) -> None:
    from penstock.clients import records

    settings = load()
    found = records.find(gateways or [gateway_address(settings)], reading_key(settings), request_id)
    if as_json:
        typer.echo(json.dumps(found))
        return
    _tell(found)


def _tell(found: dict[str, Any]) -> None:
    """Print the story, then where the time went."""
    for sentence in found["says"]:
        out.print(sentence, markup=False, highlight=False)
    out.print()
    for stage, start_s, length_s in found["timeline"]:
        line = _bar(start_s, length_s, max(found["seconds"], 1e-9))
        out.print(f"{stage:>13} {line} {length_s * 1e3:>10,.1f} ms", markup=False, highlight=False)


def _bar(start_s: float, length_s: float, whole_s: float) -> str:
    """Draw a stage where it lies in the request's time; the shortest is still seen."""
    start = min(WIDTH - 1, round(WIDTH * start_s / whole_s))
    length = max(1, min(WIDTH - start, round(WIDTH * length_s / whole_s)))
    return f"{'·' * start}{'█' * length}{'·' * (WIDTH - start - length)}"


def _decisions(limit: int, *, as_json: bool) -> None:
    found = operator(load()).get(f"/decisions?limit={limit}")["decisions"]
    if as_json:
        for one in found:
            typer.echo(json.dumps({"at": one["at"], **one["decision"]}))
        return
    rows = [
        (
            tables.when(one["at"]),
            *(one["decision"][name] for name in ("what", "target", "signal", "value", "objective")),
        )
        for one in found
    ]
    tables.show("Decisions", ("at (UTC)", "what", "target", "signal", "said", "against"), rows)
