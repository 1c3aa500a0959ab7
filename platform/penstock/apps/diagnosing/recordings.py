"""Recordings: made of what is measured now, written to a file for somebody else, read again."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.apps import observed
from penstock.apps.settings import Settings
from penstock.connectors.prometheus.client import Prometheus
from penstock.connectors.prometheus.window import PrometheusWindow, watch
from penstock.diagnosis.recording import Recording, record
from penstock.domain.clock import SystemClock
from penstock.domain.command_error import CommandError
from penstock.telemetry.series import Sample

LOOK_BACK_S = 300.0
"""How far back a Prometheus is asked, where nobody says."""
WATCH_S = 15.0
"""And how long pages are watched."""
UNSEEN_RATIO = 0.1
"""Of a window; more is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What of: a length in seconds and an end in Unix seconds, 0 where nobody said; a Prometheus by its address."""

    seconds: float = 0.0
    until: float = 0.0
    prometheus: str = ""


def measure(settings: Settings, asked: Asked) -> Recording:
    """Ask a Prometheus, or watch the pages of this home where there is none."""
    prometheus = observed.prometheus(settings, asked.prometheus)
    if prometheus is not None:
        return _of_prometheus(prometheus, asked)
    if asked.until:
        raise CommandError(
            "Only a Prometheus knows what was; the pages of processes say what is.",
            do="Give its address with --prometheus, or leave --until out.",
        )
    seconds = asked.seconds or WATCH_S
    window = watch(lambda: observed.pages(settings), SystemClock(), seconds)
    return record(window, f"{window.seconds:.0f} s from now on, from the processes of {settings.paths.root}")


def _of_prometheus(prometheus: Prometheus, asked: Asked) -> Recording:
    window = PrometheusWindow(prometheus, asked.seconds or LOOK_BACK_S, asked.until or None)
    says = f"the last {window.seconds:.0f} s, from {prometheus.url}"
    if window.seconds - window.seen_s > window.seconds * UNSEEN_RATIO:
        says += (
            f", which has seen only {window.seen_s:.0f} s of it (what is unknown may be known of a shorter --window)"
        )
    return record(window, says)


def write(recording: Recording, file: Path) -> None:
    """Write a recording as JSON; raises ``CommandError``."""
    parts = {"increases": recording.increases, "levels": recording.levels}
    told = {
        "says": recording.says,
        "seconds": round(recording.seconds, 3),
        **{part: {name: _plain(samples) for name, samples in found.items()} for part, found in parts.items()},
    }
    try:
        file.write_text(json.dumps(told) + "\n")
    except OSError as error:
        raise CommandError(f"Can't write {file}: {error.strerror}.", do="Name another file with --record.") from error


def read(file: Path) -> Recording:
    """Read a recording; raises ``CommandError``."""
    try:
        told = json.loads(file.read_text())
        return Recording(
            says=str(told["says"]),
            seconds=float(told["seconds"]),
            increases=_samples(told["increases"]),
            levels=_samples(told["levels"]),
        )
    except OSError as error:
        raise CommandError(f"Can't read {file}: {error.strerror}.", do="Name a file that --record wrote.") from error
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise CommandError(f"{file} is no recording.", do="Name a file that --record wrote.") from error


def _plain(samples: tuple[Sample, ...]) -> list[list[object]]:
    return [[dict(sample.labels), sample.value] for sample in samples]


def _samples(told: Mapping[str, Any]) -> dict[str, tuple[Sample, ...]]:
    return {
        name: tuple(Sample(labels=labels, value=None if value is None else float(value)) for labels, value in found)
        for name, found in told.items()
    }
