"""`penstock embed`: vectors of texts, as a client asks for them."""

import json
import sys
from typing import Annotated

import typer

from penstock.cli.terminal import explained, out


def embed(
    texts: Annotated[
        list[str] | None,
        typer.Argument(help="The texts; without any, the lines of the standard input.", show_default=False),
    ] = None,
    model: Annotated[str, typer.Option(help="An alias, or a version as name@digest.")] = "minilm",
    key: Annotated[str, typer.Option(help="An API key; default: the demo tenant's.", show_default=False)] = "",
) -> None:
    """Turn texts into vectors; each is a line of JSON.

    For example:

    * `penstock embed "A kitten sleeps." "A cat naps."`

    * `penstock embed --model minilm < lines.txt > vectors.jsonl`
    """
    from penstock.apps.settings import load
    from penstock.clients.classic import embed as ask
    from penstock.domain.command_error import CommandError
    from penstock.local import connections

    with explained(), connections.gateway(load(), key) as http:
        given = texts or [line.rstrip("\n") for line in sys.stdin if line.strip()]
        if not given:
            raise CommandError("There is no text.", do='Give one: penstock embed "A kitten sleeps."')
        for vector in ask(http, model, given):
            out.print(json.dumps(vector), highlight=False, markup=False, soft_wrap=True)
