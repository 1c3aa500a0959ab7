"""`penstock classify`: labels of texts by a classifier, as a client asks for them."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.terminal import err, explained, out

if TYPE_CHECKING:
    from penstock.clients.classic import Labelled


def classify(
    texts: Annotated[
        list[str] | None,
        typer.Argument(help="The texts; without any, the lines of the standard input.", show_default=False),
    ] = None,
    model: Annotated[str, typer.Option(help="An alias, or a version as name@digest.")] = "topics",
    key: Annotated[str, typer.Option(help="An API key; default: the demo tenant's.", show_default=False)] = "",
    stages: Annotated[bool, typer.Option(help="Show the time of each stage.")] = True,
) -> None:
    """Print the best label of each text with its score, a line for each.

    For example:

    * `penstock classify "How long should I boil an egg?"`

    * `penstock classify --model topics < lines.txt`
    """
    from penstock.apps.settings import load
    from penstock.clients.classic import classify as ask
    from penstock.domain.clock import SystemClock
    from penstock.domain.command_error import CommandError
    from penstock.local import connections

    with explained(), connections.gateway(load(), key) as http:
        given = texts or [line.rstrip("\n") for line in sys.stdin if line.strip()]
        if not given:
            raise CommandError("There is no text.", do='Give one: penstock classify "How long should I boil an egg?"')
        show(ask(http, model, given, SystemClock().monotonic), stages=stages)


def show(answer: "Labelled", *, stages: bool) -> None:
    """Print the labels with their scores, a line for each, and the times of the stages if wanted."""
    from penstock.clients.chat import breakdown

    for label, score in answer.found:
        out.print(f"{label}  {score:.1%}", highlight=False, markup=False)
    if stages:
        err.print(breakdown(answer.stats), style="dim", highlight=False, soft_wrap=True)
