"""`penstock files …`: inputs and results of batches."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli import screen
from penstock.cli.deferred import Gateway, Key, Most, caller, query
from penstock.cli.terminal import AsJson, out
from penstock.views import deferred as views

app = typer.Typer(no_args_is_help=True, help="Files: inputs and results of batches, stored encrypted.")
Id = Annotated[str, typer.Argument(help="A file's id, as `file-…`.")]


@app.command("list")
def list_files(
    purpose: Annotated[str, typer.Option(help="Only files of this purpose: batch or batch_output.")] = "",
    most: Most = 100,
    *,
    key: Key = "",
    gateway: Gateway = "",
    as_json: AsJson = False,
) -> None:
    """List files, newest first."""
    with caller(key, gateway) as asks:
        found = list(asks.each("/v1/files", query(purpose=purpose), most))
    screen.tell({"files": found}, lambda: views.files(found), as_json=as_json)


@app.command("show")
def show_file(file: Id, *, key: Key = "", gateway: Gateway = "", as_json: AsJson = False) -> None:
    """Show a file's name, size and expiry."""
    with caller(key, gateway) as asks:
        found = asks.get(f"/v1/files/{file}")
    screen.tell(found, lambda: views.files([found]), as_json=as_json)


@app.command("submit")
def submit_file(
    path: Annotated[Path, typer.Argument(help="A file of JSON lines, one request each.")],
    *,
    key: Key = "",
    gateway: Gateway = "",
    as_json: AsJson = False,
) -> None:
    """Upload a file as the input of a batch.

    For example: `penstock files submit requests.jsonl`
    """
    with caller(key, gateway) as asks:
        found = asks.upload(path)
    screen.tell(found, lambda: views.files([found]), as_json=as_json)


@app.command("content")
def content(
    file: Id,
    to: Annotated[Path | None, typer.Option("--output", "-o", help="Write here.", show_default="the screen")] = None,
    *,
    key: Key = "",
    gateway: Gateway = "",
) -> None:
    """Write a file's bytes.

    For example: `penstock files content file-5f2c90aa1b7d4e63 -o results.jsonl`
    """
    with caller(key, gateway) as asks:
        if to is None:
            asks.content(file, sys.stdout.buffer)
            return
        with to.open("wb") as opened:
            size = asks.content(file, opened)
    out.print(f"{to}: {size:,} bytes", highlight=False, markup=False, soft_wrap=True)


@app.command("delete")
def delete_file(file: Id, *, key: Key = "", gateway: Gateway = "") -> None:
    """Delete a file at once; its bytes go within the hour."""
    with caller(key, gateway) as asks:
        asks.delete(f"/v1/files/{file}")
    out.print(f"{file} is deleted.", highlight=False)
