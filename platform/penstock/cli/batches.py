"""`penstock batches …` and `penstock batch run`: files of requests that are answered within hours."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli import screen
from penstock.cli.deferred import Gateway, Key, Most, caller
from penstock.cli.terminal import AsJson, err, out
from penstock.domain.clock import SystemClock
from penstock.domain.command_error import CommandError
from penstock.views import deferred as views

if TYPE_CHECKING:
    from penstock.clients.deferred import Caller
    from penstock.views.elements import Record

app = typer.Typer(no_args_is_help=True, help="Batches: files of requests, answered behind all other traffic.")
runs = typer.Typer(no_args_is_help=True, help="One batch from its file to its results.")
Id = Annotated[str, typer.Argument(help="A batch's id, as `batch_…`.")]
Window = Annotated[str, typer.Option(help="The time within which it must end, as the plan allows.")]
SLOWEST_LOOK_S, FASTEST_LOOK_S = 15.0, 1.0
"""Seconds between looks at a batch that is followed: a fiftieth of the time that it has taken, within these."""
OF_THE_TIME = 0.02


@app.command("list")
def list_batches(most: Most = 20, *, key: Key = "", gateway: Gateway = "", as_json: AsJson = False) -> None:
    """List batches, newest first."""
    with caller(key, gateway) as asks:
        found = list(asks.each("/v1/batches", {}, most))
    screen.tell({"batches": found}, lambda: views.batches(found), as_json=as_json)


@app.command("show")
def show_batch(batch: Id, *, key: Key = "", gateway: Gateway = "", as_json: AsJson = False) -> None:
    """Show a batch's state, times, files and counts."""
    with caller(key, gateway) as asks:
        _tell(asks.get(f"/v1/batches/{batch}"), as_json=as_json)


@app.command("submit")
def submit_batch(
    file: Annotated[str, typer.Argument(help="The id of its input file, as `file-…`.")],
    endpoint: Annotated[str, typer.Option(help="The API of its lines.")] = "/v1/chat/completions",
    window: Window = "24h",
    *,
    key: Key = "",
    gateway: Gateway = "",
    as_json: AsJson = False,
) -> None:
    """Make a batch of an uploaded file."""
    with caller(key, gateway) as asks:
        _tell(asks.post("/v1/batches", _wish(file, endpoint, window)), as_json=as_json)


@app.command("cancel")
def cancel_batch(batch: Id, *, key: Key = "", gateway: Gateway = "", as_json: AsJson = False) -> None:
    """Cancel a batch; what is done by then stands in its files."""
    with caller(key, gateway) as asks:
        _tell(asks.post(f"/v1/batches/{batch}/cancel"), as_json=as_json)


@app.command("pause")
def pause_batch(batch: Id, *, key: Key = "", gateway: Gateway = "", as_json: AsJson = False) -> None:
    """Pause a batch: none of its lines starts until it is resumed. Its deadline stays."""
    with caller(key, gateway) as asks:
        _tell(asks.post(f"/v1/batches/{batch}/pause"), as_json=as_json)


@app.command("resume")
def resume_batch(batch: Id, *, key: Key = "", gateway: Gateway = "", as_json: AsJson = False) -> None:
    """Resume a paused batch."""
    with caller(key, gateway) as asks:
        _tell(asks.post(f"/v1/batches/{batch}/resume"), as_json=as_json)


@runs.command("run")
def run_batch(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="JSON lines, one request each, as OpenAI's batches.")],
    window: Window = "24h",
    to: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            exists=True,
            file_okay=False,
            writable=True,
            help="The folder for its files; it must be there.",
            show_default="that of FILE",
        ),
    ] = None,
    *,
    key: Key = "",
    gateway: Gateway = "",
) -> None:
    """Upload a file, make a batch of it, follow it, and write its two files.

    The results stand in FILE.output.jsonl, the lines without one in FILE.errors.jsonl. A batch goes on
    if this command is interrupted: `penstock batches show` follows it.

    For example: `penstock batch run requests.jsonl`
    """
    endpoint = _endpoint(path)
    with caller(key, gateway) as asks:
        file = asks.upload(path)["id"]
        batch = asks.post("/v1/batches", _wish(file, endpoint, window))
        err.print(f"{batch['id']} of {file}; it goes on without this command.", style="dim", highlight=False)
        ended = _followed(asks, batch["id"])
        for name in ("output", "error"):
            if found := ended.get(f"{name}_file_id"):
                _write(asks, found, (to or path.parent) / f"{path.name}.{name.replace('error', 'errors')}.jsonl")
    screen.show(views.batch(ended))
    if ended["status"] != "completed":
        raise typer.Exit(1)


def _wish(file: str, endpoint: str, window: str) -> dict[str, object]:
    return {"input_file_id": file, "endpoint": endpoint, "completion_window": window}


def _endpoint(path: Path) -> str:
    """Return the API of the file's first line; raises ``CommandError`` if it names none."""
    with path.open(encoding="utf-8-sig", errors="replace") as lines:
        first = next((line for line in lines if line.strip()), "")
    try:
        return str(json.loads(first)["url"])
    except (ValueError, LookupError, TypeError) as error:
        raise CommandError(
            f"The first line of {path} is no request.",
            do='Write lines as {"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": {…}}.',
        ) from error


def _followed(asks: "Caller", batch: str) -> "Record":
    from penstock.clients.deferred import ENDED

    clock = SystemClock()
    began, told = clock.monotonic(), ""

    def seen(found: "Record") -> float:
        nonlocal told
        took_s, counts = clock.monotonic() - began, found["request_counts"]
        done = counts["completed"] + counts["failed"]
        text = str(views.progress(found, done / took_s if took_s else 0.0))
        if text != told:
            err.print(text, style="dim", highlight=False, soft_wrap=True)
            told = text
        return min(SLOWEST_LOOK_S, max(FASTEST_LOOK_S, took_s * OF_THE_TIME))

    return asks.until_ended(f"/v1/batches/{batch}", "status", ENDED, seen)


def _write(asks: "Caller", file: str, to: Path) -> None:
    with to.open("wb") as opened:
        size = asks.content(file, opened)
    out.print(f"{to}: {size:,} bytes", highlight=False, markup=False, soft_wrap=True)


def _tell(found: "Record", *, as_json: bool) -> None:
    screen.tell(found, lambda: views.batch(found), as_json=as_json)
