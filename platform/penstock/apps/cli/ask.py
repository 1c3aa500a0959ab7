"""`penstock ask`: one question to the running platform, as any client would ask it."""

import sys
from typing import Annotated

import typer

from penstock.apps.cli.terminal import err, explained, out


def ask(
    question: Annotated[str, typer.Argument(help="What to ask; - reads it from the standard input.")],
    model: Annotated[str, typer.Option(help="An alias, or a version as name@digest.")] = "smollm2",
    key: Annotated[str, typer.Option(help="An API key; default: the demo tenant's.", show_default=False)] = "",
    max_tokens: Annotated[int, typer.Option(help="The longest answer, in tokens.")] = 256,
    stages: Annotated[bool, typer.Option(help="Show where the time went.")] = True,
) -> None:
    """Ask a model a question; the answer streams to the screen.

    For example:

    * `penstock ask "What is the capital of Japan?"`

    * `penstock ask --model smollm2-135m-instruct@0123456789ab --no-stages "Hi" > answer.txt`

    * `cat letter.txt | penstock ask -`
    """
    from penstock.apps import connections
    from penstock.apps.settings import load
    from penstock.clients.chat import Question, ask_model, breakdown
    from penstock.domain.clock import SystemClock

    with explained(), connections.gateway(load(), key) as http:
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
