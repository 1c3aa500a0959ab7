"""`penstock audit`: administrative acts and their chain; a tenant's own keys see the acts of their tenant."""

from pathlib import Path
from typing import Annotated
from urllib.parse import urlencode

import typer

from penstock.cli import screen
from penstock.cli.arguments import seconds
from penstock.cli.caller import as_caller
from penstock.cli.terminal import err, out, tell_json
from penstock.local.connections import operator
from penstock.settings import load
from penstock.views import tenants as views

MOST = 1000
BROKEN, LATE = 3, 4
"""Exit codes of `verify`: the chain is broken; it is whole, and acts or segments wait too long."""
app = typer.Typer(invoke_without_command=True)


@app.callback()
@as_caller
def audit(  # noqa: PLR0913, PLR0917  an option each
    context: typer.Context,
    since: Annotated[str, typer.Option(help="From this UTC day or moment on.", show_default="the beginning")] = "",
    until: Annotated[str, typer.Option(help="Before this UTC day or moment.", show_default="now")] = "",
    actor: Annotated[str, typer.Option(help="Only acts of this key id, or of `platform`.", show_default="all")] = "",
    action: Annotated[
        str,
        typer.Option(
            help="Only acts of this kind, such as `key.revoke`, or `key` for all about keys.", show_default="all"
        ),
    ] = "",
    limit: Annotated[int, typer.Option(min=1, max=MOST, help="The number of acts, newest first.")] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line; times in Unix seconds.")] = False,
) -> None:
    """List administrative acts, newest first, or verify the chain that they are in.

    A tenant's admins and auditors see those of their tenant, operators all.

    For example:

    * `penstock audit --since 2026-11-01 --action key`

    * `PENSTOCK_KEY=psk_… penstock audit --url http://127.0.0.1:8079 --json | jq .what`
    """
    if context.invoked_subcommand is not None:
        return
    wanted = {"since": seconds(since), "until": seconds(until), "who": actor, "what": action, "limit": limit}
    acts = operator(load()).get(f"/audit?{urlencode(wanted)}")["acts"]
    if as_json:
        for act in acts:
            tell_json(act)
        return
    screen.show(views.acts(acts))


@app.command()
def verify(
    since: Annotated[
        str, typer.Option(help="From segments signed on this UTC day or moment on.", show_default="the beginning")
    ] = "",
    from_bucket: Annotated[
        bool, typer.Option("--from-bucket", help="Also read all shipped segments, and compare them with the database.")
    ] = False,
    public_key: Annotated[
        list[Path] | None,
        typer.Option(help="The key of the signatures, PEM; may be given again.", show_default="the platform's"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Verify the audit log's chain: links, signed heads, and with `--from-bucket` the record that can't be shortened.

    It reads the database directly, with any role that may read the audit tables (`penstock_auditors`).

    Exit codes: 0 whole, 3 broken, 4 whole but acts or segments wait too long, 1 not verified.

    For example: `penstock audit verify --from-bucket`
    """
    import asyncio

    from penstock.apps.audit import verify as verified
    from penstock.domain.clock import SystemClock

    found = asyncio.run(
        verified(
            load(),
            SystemClock(),
            from_bucket=from_bucket,
            since=seconds(since),
            public_keys=tuple(public_key or ()),
            progress=_progress,
        )
    )
    shown = found.as_record()
    if as_json:
        tell_json(shown)
    else:
        for line in views.verification(shown):
            out.print(line, highlight=False, soft_wrap=True, markup=False)
    if not found.report.is_whole:
        raise typer.Exit(BROKEN)
    if found.late:
        raise typer.Exit(LATE)


def _progress(done: int, of: int) -> None:
    if err.is_terminal:
        err.print(f"{done:,} of {of:,} links", end="\r", highlight=False)
