"""`penstock diagnose`: the bottleneck by evidence, and the remedies."""

from dataclasses import dataclass
from functools import cache
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli import screen
from penstock.cli.arguments import length, seconds
from penstock.cli.terminal import tell_json
from penstock.domain.command_error import CommandError
from penstock.settings import Settings, load

if TYPE_CHECKING:
    from penstock.connectors.prometheus.window import PrometheusWindow
    from penstock.diagnosis.evidence import Case
    from penstock.diagnosis.recording import Recording
    from penstock.diagnosis.verdict import Diagnosis

BOTTLENECK, UNEXPLAINED = 3, 4
"""Exit codes in addition to 0 for no problem, 1 for a failed command and 2 for wrong usage."""
LOOK_BACK_S = 300.0
"""Seconds that Prometheus is queried for without --window."""
MINUTE_S = 60.0
"""Seconds of a window's end: a few scrapes, and enough requests to judge."""
WATCH_S = 15.0
"""Seconds that pages are read without --window."""
UNSEEN_RATIO = 0.1
"""The part of a window without data above which it is mentioned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagnoseOptions:
    """A length in seconds and an end in Unix seconds, 0 for the defaults; the address of a Prometheus."""

    seconds: float = 0.0
    until: float = 0.0
    prometheus: str = ""


def diagnose(
    window: Annotated[
        str,
        typer.Option(
            help="The period's length: 90s, 5m, 1h.", show_default="5m with a Prometheus, else 15s from now on"
        ),
    ] = "",
    until: Annotated[str, typer.Option(help="Its end, as UTC time; needs a Prometheus.", show_default="now")] = "",
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
    record: Annotated[Path | None, typer.Option(help="Also write the measurements to this file, for --replay.")] = None,
    replay: Annotated[Path | None, typer.Option(help="Diagnose a file that --record wrote; needs no platform.")] = None,
) -> None:
    """Name the bottleneck from evidence: the time of each stage, the broken promise, its cause, and the remedies.

    Each known cause is found, ruled out, or left open because something is unknown; unknown values rule nothing out.
    Remedies come cheapest first.

    Ends with 0 if nothing is wrong, 3 if a bottleneck is found, and 4 if a promise is broken without a known cause or
    too little was measured.

    For example:

    * `penstock diagnose`, while it is slow

    * `penstock diagnose --prometheus http://prometheus:9090 --window 30m --until 2026-11-22T14:30`

    * `penstock diagnose --json | jq .bottleneck`
    """
    from penstock.apps import slos
    from penstock.diagnosis import report
    from penstock.diagnosis.measure import snapshot_of
    from penstock.diagnosis.verdict import Word, judge
    from penstock.views.diagnosis import lines

    asked = DiagnoseOptions(seconds=length(window), until=seconds(until), prometheus=prometheus)
    recorded = None if replay else prometheus_window(load(), asked)
    recording = read(replay) if replay else measure(load(), asked, recorded)
    if record:
        write(recording, record)
    snapshot = snapshot_of(recording, slos.load().values())
    verdict = judge(snapshot)
    if recorded is not None:
        verdict = lately(recorded, verdict)
    if as_json:
        tell_json(report.report(verdict, snapshot, recording))
    else:
        screen.show(lines(verdict, snapshot, recording))
    raise typer.Exit({Word.HEALTHY: 0, Word.BOTTLENECK: BOTTLENECK}.get(verdict.word, UNEXPLAINED))


def prometheus_window(settings: Settings, asked: DiagnoseOptions) -> "PrometheusWindow | None":
    from penstock.apps import observed
    from penstock.connectors.prometheus.window import PrometheusWindow

    prometheus = observed.prometheus(settings, asked.prometheus)
    return PrometheusWindow(prometheus, asked.seconds or LOOK_BACK_S, asked.until or None) if prometheus else None


def measure(settings: Settings, asked: DiagnoseOptions, window: "PrometheusWindow | None" = None) -> "Recording":
    from penstock.apps import observed
    from penstock.connectors.prometheus.window import watch
    from penstock.diagnosis.recording import record
    from penstock.domain.clock import SystemClock

    if window is not None:
        return _of_prometheus(window)
    if asked.until:
        raise CommandError(
            "The past needs a Prometheus; processes' metrics pages show only the present.",
            do="Give its address with --prometheus, or leave --until out.",
        )
    pages = watch(lambda: observed.pages(settings), SystemClock(), asked.seconds or WATCH_S)
    return record(pages, f"{pages.seconds:.0f} s from now on, from the processes of {settings.paths.root}")


def lately(window: "PrometheusWindow", whole: "Diagnosis") -> "Diagnosis":
    """Return the verdict on the last minute first; only Prometheus can separate the minutes of a window."""
    from penstock.apps import slos
    from penstock.diagnosis.measure import snapshot_of
    from penstock.diagnosis.recording import record
    from penstock.diagnosis.verdict import judge, timed

    if window.seconds < 2 * MINUTE_S:
        return whole
    tiers = tuple(slos.load().values())

    @cache
    def minute(before: int) -> "Diagnosis":
        return judge(snapshot_of(record(window.part(MINUTE_S, before * MINUTE_S)), tiers))

    def ended_s(case: "Case") -> float | None:
        minutes = range(1, ceil(min(window.seconds, window.seen_s) / MINUTE_S))
        found = (n for n in minutes if case in {one.judgement.case for one in minute(n).findings})
        ended = next(found, None)
        return None if ended is None else ended * MINUTE_S

    return timed(minute(0), whole, ended_s)


def _of_prometheus(window: "PrometheusWindow") -> "Recording":
    from penstock.diagnosis.recording import record

    says = f"the last {window.seconds:.0f} s, from {window.url}"
    if window.seconds - window.seen_s > window.seconds * UNSEEN_RATIO:
        says += f", which has data for only {window.seen_s:.0f} s of it (a shorter --window may leave less unknown)"
    return record(window, says)


def write(recording: "Recording", file: Path) -> None:
    from penstock.diagnosis.recording import as_json

    try:
        file.write_text(as_json(recording) + "\n")
    except OSError as error:
        raise CommandError(f"Can't write {file}: {error.strerror}.", do="Name another file with --record.") from error


def read(file: Path) -> "Recording":
    from penstock.diagnosis.recording import of_json

    try:
        return of_json(file.read_text())
    except OSError as error:
        raise CommandError(f"Can't read {file}: {error.strerror}.", do="Name a file that --record wrote.") from error
    except ValueError as error:
        raise CommandError(f"{file} is no recording.", do="Name a file that --record wrote.") from error
