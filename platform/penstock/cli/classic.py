"""`penstock embed` and `penstock classify`: request vectors and labels of texts, as any client does."""

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.terminal import err, out
from penstock.domain.command_error import CommandError

if TYPE_CHECKING:
    from penstock.clients.classic import Labelled

Texts = Annotated[
    list[str] | None,
    typer.Argument(help="The texts; without any, the lines of the standard input.", show_default=False),
]
Key = Annotated[str, typer.Option(help="An API key; default: the demo tenant's.", show_default=False)]


def embed(
    texts: Texts = None,
    model: Annotated[str, typer.Option(help="An alias, or a version as name@digest.")] = "minilm",
    key: Key = "",
) -> None:
    """Turn texts into vectors; each is a line of JSON.

    For example:

    * `penstock embed "A kitten sleeps." "A cat naps."`

    * `penstock embed --model minilm < lines.txt > vectors.jsonl`
    """
    from penstock.clients.classic import embed as ask
    from penstock.local import connections
    from penstock.settings import load

    with connections.gateway(load(), key) as http:
        given = _given(texts, 'penstock embed "A kitten sleeps."')
        for vector in ask(http, model, given):
            out.print(json.dumps(vector), highlight=False, markup=False, soft_wrap=True)


def classify(
    texts: Texts = None,
    model: Annotated[str, typer.Option(help="An alias, or a version as name@digest.")] = "topics",
    key: Key = "",
    stages: Annotated[bool, typer.Option(help="Show the time of each stage.")] = True,
) -> None:
    """Print the best label of each text with its score, a line for each.

    For example:

    * `penstock classify "How long should I boil an egg?"`

    * `penstock classify --model topics < lines.txt`
    """
    from penstock.clients.classic import classify as ask
    from penstock.domain.clock import SystemClock
    from penstock.local import connections
    from penstock.settings import load

    with connections.gateway(load(), key) as http:
        given = _given(texts, 'penstock classify "How long should I boil an egg?"')
        show(ask(http, model, given, SystemClock().monotonic), stages=stages)


def show(answer: "Labelled", *, stages: bool) -> None:
    """Print each label with its score on a line, and the times of the stages if requested."""
    from penstock.clients.chat import breakdown

    for label, score in answer.found:
        out.print(f"{label}  {score:.1%}", highlight=False, markup=False)
    if stages:
        err.print(breakdown(answer.stats), style="dim", highlight=False, soft_wrap=True)


def _given(texts: list[str] | None, example: str) -> list[str]:
    given = texts or [line.rstrip("\n") for line in sys.stdin if line.strip()]
    if not given:
        raise CommandError("There is no text.", do=f"Give one: {example}")
    return given
