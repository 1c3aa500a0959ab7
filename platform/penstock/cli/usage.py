"""`penstock usage …`: usage as sums or rows, and the reconciliation of counters with the ledger."""

import csv
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import fields
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TextIO
from urllib.parse import quote, urlencode

import typer

from penstock.cli import screen
from penstock.cli.arguments import seconds
from penstock.cli.caller import as_caller
from penstock.cli.terminal import AsJson, err, out, tell_json
from penstock.clients.operator import Operator
from penstock.domain.tenancy.ledger import LedgerRow
from penstock.local.connections import operator
from penstock.settings import load
from penstock.views import tenants as views

PAGE_ROWS = 5000
COLUMNS = tuple(field.name for field in fields(LedgerRow))
app = typer.Typer(no_args_is_help=True, help="Usage: sums and rows of the ledger, one row for each admitted request.")
Since = Annotated[str, typer.Option(help="From this UTC day or moment on.", show_default="start of the month")]
Until = Annotated[str, typer.Option(help="Before this UTC day or moment.", show_default="now")]


class OutputFormat(StrEnum):
    CSV = "csv"
    JSON = "json"


@app.command("show")
@as_caller
def show_usage(
    tenant: Annotated[str, typer.Argument(help="The tenant.")],
    since: Since = "",
    until: Until = "",
    *,
    as_json: AsJson = False,
) -> None:
    """Sum up a tenant's requests by version and outcome.

    For example: `penstock usage show demo --since 2026-11-01 --until 2026-12-01`
    """
    query = urlencode({"begin": seconds(since), "end": seconds(until)})
    found = operator(load()).get(f"/usage/{quote(tenant, safe='')}?{query}")
    screen.tell(found, lambda: views.usage(tenant, found), as_json=as_json)


@app.command("export")
@as_caller
def export_usage(
    tenant: Annotated[str, typer.Option(help="Only rows of this tenant.", show_default="all")] = "",
    form: Annotated[
        OutputFormat, typer.Option("--format", help="CSV, or JSON with one object a line.")
    ] = OutputFormat.CSV,
    since: Since = "",
    until: Until = "",
    output: Annotated[Path | None, typer.Option(help="The file to write.", show_default="standard output")] = None,
) -> None:
    """Write the ledger's rows in the order of the requests' ends. Money is in micro-dollars, times in Unix seconds.

    For example:

    * `penstock usage export --since 2026-11-01 --until 2026-12-01 --output november.csv`

    * `penstock usage export --tenant shop --format json | jq .cost`
    """
    rows = rows_of(operator(load()), tenant, seconds(since), seconds(until))
    with output.open("w", newline="") if output else nullcontext(sys.stdout) as file:
        count = _write(rows, form, file)
    err.print(f"{count} row{'' if count == 1 else 's'}", style="dim")


@app.command("reconcile")
@as_caller
def reconcile(
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Set the counters to the ledger's sums; only while no request runs.")
    ] = False,
    *,
    as_json: AsJson = False,
) -> None:
    """Compare the counters of the shared limits store with the ledger; end with code 1 if they differ.

    At rest there is no difference. While requests run, counters are ahead by the rows that are not in the ledger yet.
    One gateway counts for itself, from the ledger: then the rows that wait on this home's disk are counted.

    For example: `penstock usage reconcile`, and after a loss of the limits store `penstock usage reconcile --rebuild`.
    """
    settings = load()
    api = operator(settings)
    found = api.post("/budgets/reconcile") if rebuild else api.get("/budgets/reconcile")
    wrong = sum(1 for one in found["budgets"] if one["difference"])
    if as_json:
        tell_json(found)
    elif not found["shared"]:
        _undelivered(settings.paths.spool)
    else:
        screen.show(views.reconciled(found["budgets"]))
        says = f"{len(found['budgets'])} budgets, {wrong} differ, {found['corrected']} corrected"
        out.print(says, highlight=False)
    if wrong:
        raise typer.Exit(1)


def _undelivered(spool: Path) -> None:
    from penstock.connectors.spool.by_hand import waiting

    rows = waiting(spool)
    out.print(f"{rows} rows of ended requests wait on this home's disk; all others are in the ledger", highlight=False)
    if rows:
        raise typer.Exit(1)


def rows_of(api: Operator, tenant: str, begin: float, end: float) -> Iterator[dict[str, Any]]:
    """Return the ledger's rows, page by page; an empty tenant is all."""
    after = ""
    while True:
        query = {"tenant": tenant, "begin": begin, "end": end, "after": after, "limit": PAGE_ROWS}
        page = api.get(f"/usage/rows?{urlencode(query)}")
        yield from page["rows"]
        after = page["next"]
        if not after:
            return


def _write(rows: Iterable[dict[str, Any]], form: OutputFormat, file: TextIO) -> int:
    """Write rows and return their number; CSV has its header even without rows."""
    count, writer = 0, csv.DictWriter(file, COLUMNS)
    if form is OutputFormat.CSV:
        writer.writeheader()
    for row in rows:
        count += 1
        if form is OutputFormat.CSV:
            writer.writerow(row)
        else:
            file.write(json.dumps(row) + "\n")
    return count
