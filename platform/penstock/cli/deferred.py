"""What the commands for deferred work share: a gateway and a tenant's key, and lengths of lists."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from penstock.clients.deferred import Caller

Key = Annotated[
    str,
    typer.Option("--key", envvar="PENSTOCK_KEY", help="An API key; default: the demo tenant's.", show_default=False),
]
Gateway = Annotated[str, typer.Option("--gateway", help="A gateway's address.", show_default="that of this home")]
Most = Annotated[int, typer.Option("--limit", min=1, help="The most that are listed, newest first.")]


@contextmanager
def caller(key: str, gateway: str) -> Iterator["Caller"]:
    from penstock.clients.deferred import Caller
    from penstock.local import connections
    from penstock.settings import load

    with connections.gateway(load(), key, gateway) as http:
        yield Caller(http, time.sleep)


def query(**named: str) -> dict[str, str]:
    return {name: value for name, value in named.items() if value}
