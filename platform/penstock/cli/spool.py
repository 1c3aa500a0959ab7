"""`penstock spool`: what gateways owe the ledger, where a gateway itself won't bring it."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.terminal import err, explained, out

app = typer.Typer(no_args_is_help=True, help="What gateways owe the ledger.")


@app.command()
def deliver(
    folder: Annotated[
        str, typer.Argument(help="The folder `spool` of a gateway's home.", show_default="that of this home")
    ] = "",
) -> None:
    """Bring the rows of gateways that have ended to the ledger, as the next gateway in their home would.

    For a volume whose gateway never comes back. It may run beside gateways that live there: theirs is left alone. It
    needs the database alone, and may be run again: a row that is there already is not counted twice.

    For example: `penstock spool deliver /mnt/home-gateway-7/spool`
    """
    import asyncio

    from penstock.apps.settings import load
    from penstock.apps.stores import deliver_spool
    from penstock.domain.clock import SystemClock

    with explained():
        settings = load()
        place = Path(folder) if folder else settings.paths.spool
        done = asyncio.run(deliver_spool(settings, place, SystemClock()))
    for request, why in done.refused.items():
        err.print(f"the ledger does not take request {request}: {why}", highlight=False, soft_wrap=True)
    left = f"{len(done.left)} files are left: of gateways that run, or of what the ledger does not take"
    told = left if done.left else "nothing is left"
    out.print(f"{done.rows} rows delivered; {told}", highlight=False, soft_wrap=True)
    if done.left:
        raise typer.Exit(1)
