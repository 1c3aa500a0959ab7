"""`penstock diagnose`: what holds the platform up, by evidence, and what helps."""

import json
import re
from pathlib import Path
from typing import Annotated

import typer

from penstock.apps.settings import load
from penstock.cli.moments import seconds
from penstock.cli.terminal import explained, out
from penstock.domain.command_error import CommandError

BOTTLENECK, UNEXPLAINED = 3, 4
"""Exit codes beside 0 for nothing wrong, 1 for a command that can't go on and 2 for one that was not understood."""
_LENGTH = re.compile(r"(\d+(?:\.\d+)?)(s|m|h)?")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}


def diagnose(
    window: Annotated[
        str,
        typer.Option(help="Of how long: 90s, 5m, 1h.", show_default="5m of a Prometheus, else 15s from now on"),
    ] = "",
    until: Annotated[str, typer.Option(help="Ending at this UTC moment; of a Prometheus.", show_default="now")] = "",
    prometheus: Annotated[
        str,
        typer.Option(
            envvar="PENSTOCK_PROMETHEUS_URL",
            help="The address of a Prometheus that scrapes the platform.",
            show_default="that of `penstock up --observe`, else the processes' own pages",
        ),
    ] = "",
    *,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object with every number.")] = False,
    record: Annotated[Path | None, typer.Option(help="Write what was measured to this file, for a colleague.")] = None,
    replay: Annotated[Path | None, typer.Option(help="Judge what such a file holds, without a platform.")] = None,
) -> None:
    """Name the bottleneck from evidence: where requests' time went, which promise is broken, by what, and what helps.

    Each known cause is found, ruled out, or left open because something is unknown; what is unknown rules nothing out.
    Remedies come cheapest first.

    Ends with 0 where nothing is wrong, 3 where a bottleneck is found, and 4 where a promise is broken without a known
    cause or too little was measured.

    For example:

    * `penstock diagnose`, while it is slow

    * `penstock diagnose --prometheus http://prometheus:9090 --window 30m --until 2026-11-22T14:30`

    * `penstock diagnose --json | jq .bottleneck`
    """
    from penstock.apps import slos
    from penstock.apps.diagnosing import recordings, report, screen
    from penstock.diagnosis.measure import snapshot_of
    from penstock.diagnosis.verdict import Word, judge

    with explained():
        asked = recordings.Asked(seconds=_length(window), until=seconds(until), prometheus=prometheus)
        recording = recordings.read(replay) if replay else recordings.measure(load(), asked)
        if record:
            recordings.write(recording, record)
        snapshot = snapshot_of(recording, slos.load().values())
        verdict = judge(snapshot)
        if as_json:
            typer.echo(json.dumps(report.report(verdict, snapshot, recording)))
        else:
            screen.show(out, verdict, snapshot, recording)
    raise typer.Exit({Word.HEALTHY: 0, Word.BOTTLENECK: BOTTLENECK}.get(verdict.word, UNEXPLAINED))


def _length(text: str) -> float:
    """Return a length of time in seconds, 0 for none."""
    if not text:
        return 0.0
    found = _LENGTH.fullmatch(text.strip())
    length = float(found[1]) * _SECONDS[found[2]] if found else 0.0
    if length <= 0:
        raise CommandError(f"{text!r} is no length of time.", do="Write for example 90s, 5m or 1h.")
    return length
