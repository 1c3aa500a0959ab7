"""`penstock ask`: sends one question to the running platform, as any client does."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.terminal import err, out


def ask(
    question: Annotated[
        str, typer.Argument(help="The question; - reads it from the standard input.", show_default=False)
    ] = "",
    image: Annotated[
        Path | None, typer.Option(help="An image to be classified: JPEG, PNG or WebP.", show_default=False)
    ] = None,
    model: Annotated[
        str,
        typer.Option(
            help="An alias, or a version as name@digest; default: smollm2, and for an image one that takes them.",
            show_default=False,
        ),
    ] = "",
    key: Annotated[str, typer.Option(help="An API key; default: the demo tenant's.", show_default=False)] = "",
    max_tokens: Annotated[int, typer.Option(help="The longest answer, in tokens.")] = 256,
    stages: Annotated[bool, typer.Option(help="Show the time of each stage.")] = True,
) -> None:
    """Ask a model a question; the answer streams to the screen.

    For example:

    * `penstock ask "What is the capital of Japan?"`

    * `penstock ask --model smollm2-135m-instruct@0123456789ab --no-stages "Hi" > answer.txt`

    * `cat letter.txt | penstock ask -`

    * `penstock ask --image cat.jpg`
    """
    if image is not None:
        _classify(question, image, model, key, stages=stages)
        return
    _chat(question, model or "smollm2", key, max_tokens, stages=stages)


def _classify(question: str, image: Path, model: str, key: str, *, stages: bool) -> None:
    from penstock.cli.classic import show
    from penstock.clients import classic
    from penstock.domain.clock import SystemClock
    from penstock.domain.command_error import CommandError
    from penstock.local import connections
    from penstock.settings import load

    if question:
        raise CommandError(
            "An image is only classified: it takes no question.", do="Leave out the question, or the image."
        )
    given = classic.image_of(image)
    with connections.gateway(load(), key) as http:
        answer = classic.classify(http, classic.image_model(http, model), given, SystemClock().monotonic)
    show(answer, stages=stages)


def _chat(question: str, model: str, key: str, max_tokens: int, *, stages: bool) -> None:
    from penstock.clients.chat import Question, ask_model, breakdown
    from penstock.domain.clock import SystemClock
    from penstock.domain.command_error import CommandError
    from penstock.local import connections
    from penstock.settings import load

    with connections.gateway(load(), key) as http:
        if not question:
            raise CommandError("There is no question.", do='Ask one: penstock ask "Why is the sky blue?"')
        text = sys.stdin.read() if question == "-" else question
        stats = ask_model(
            http,
            Question(model=model, text=text, max_tokens=max_tokens),
            lambda piece: out.print(piece, end="", markup=False, highlight=False, soft_wrap=True),
            SystemClock().monotonic,
        )
        out.print()
        if stages:
            err.print(breakdown(stats), style="dim", highlight=False, soft_wrap=True)
