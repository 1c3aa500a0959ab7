"""`penstock spool`: ledger rows that gateways left on disk before they ended for good."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.terminal import err, out

app = typer.Typer(no_args_is_help=True, help="Ledger rows that gateways still hold on disk.")


@app.command()
def deliver(
    folder: Annotated[
        str, typer.Argument(help="The folder `spool` of a gateway's home.", show_default="that of this home")
    ] = "",
) -> None:
    """Deliver the rows of ended gateways to the ledger, as the next gateway in their home would.

    For a volume whose gateway never comes back. It may run beside living gateways, whose rows it leaves alone. It needs
    only the database, and may run again: no row is counted twice.

    For example: `penstock spool deliver /mnt/home-gateway-7/spool`
    """
    import asyncio

    from penstock.apps.stores import deliver_spool
    from penstock.domain.clock import SystemClock
    from penstock.settings import load

    settings = load()
    place = Path(folder) if folder else settings.paths.spool
    done = asyncio.run(deliver_spool(settings, place, SystemClock()))
    for request, why in done.refused.items():
        err.print(f"the ledger refuses the row of request {request}: {why}", highlight=False, soft_wrap=True)
    left = f"{len(done.left)} files are left: of running gateways, or with rows that the ledger refuses"
    told = left if done.left else "nothing is left"
    out.print(f"{done.rows} rows delivered; {told}", highlight=False, soft_wrap=True)
    if done.left:
        raise typer.Exit(1)
