"""``--key`` and ``--url``: the caller's key and the controller's address, for all commands that need them.

Without them a command acts as the operator of the home that it finds. With them it needs no home, and runs on any
machine that reaches the address.
"""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer

Key = Annotated[
    str,
    typer.Option(
        "--key",
        envvar="PENSTOCK_KEY",
        help="An admin's API key; for reading, an auditor's.",
        show_default="the operators' of this home",
        rich_help_panel="Caller",
    ),
]
Url = Annotated[
    str,
    typer.Option(
        "--url",
        envvar="PENSTOCK_URL",
        help="The controller's address.",
        show_default="that of this home, else http://127.0.0.1:8079",
        rich_help_panel="Caller",
    ),
]


def as_caller(command: Callable[..., None]) -> Callable[..., None]:
    """Add ``--key`` and ``--url`` to a command."""

    @wraps(command)
    def called(*arguments: Any, key: str = "", url: str = "", **named: Any) -> None:  # noqa: ANN401  the command's own
        from penstock.settings import choose_caller

        choose_caller(key, url)
        try:
            command(*arguments, **named)
        finally:
            choose_caller("", "")

    own = inspect.signature(command)
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default="", annotation=kind)
        for name, kind in (("key", Key), ("url", Url))
    ]
    called.__signature__ = own.replace(parameters=[*own.parameters.values(), *added])  # type: ignore[attr-defined]
    called.__annotations__ = {**get_type_hints(command, include_extras=True), "key": Key, "url": Url}
    return called
