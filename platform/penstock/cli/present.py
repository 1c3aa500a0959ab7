"""The present as `penstock status` shows it first: from processes' own pages and the home's Prometheus, no database."""

import json
from collections.abc import Iterator, Sequence

from penstock.apps import observed
from penstock.apps.settings import Settings
from penstock.connectors.prometheus.client import Prometheus
from penstock.connectors.prometheus.page import Page, Reading, read
from penstock.domain.clock import SystemClock
from penstock.domain.command_error import CommandError
from penstock.local import observing
from penstock.telemetry import names
from penstock.telemetry.definitions import Label
from penstock.telemetry.series import Sample
from penstock.views import status as views
from penstock.views.elements import Line, Listing

LOST = ("worker_died", "worker_killed", "worker_tries_again", "worker_failed")
"""Events of an engine or worker that was lost, in the logs of the home."""
FIRING = 'ALERTS{alertstate="firing"}'
LOUDEST = f"topk(1, sum by (tenant) (rate({names.TENANT_QUEUE_SECONDS.name}_sum[1m])) > 0.5)"
"""A tenant's seconds of wait a second: its mean number of waiting requests."""


def told(settings: Settings) -> Iterator[Line]:
    found = reading(settings)
    circuits = {
        level: sum(one.value or 0.0 for one in _of(found, names.BREAKERS_OPEN.name) if one.labels[Label.LEVEL] == level)
        for level in ("worker", "zone", "version")
    }
    alerts, loudest = _of_prometheus(settings)
    yield from views.present(views.Present(circuits=circuits, alerts=alerts, loudest=loudest, lost=_lost(settings)))


def reading(settings: Settings) -> Reading:
    return read(observed.pages(settings), SystemClock().monotonic())


def workers(settings: Settings) -> Listing:
    """Return the workers by their own pages: the controller's table needs the database."""
    pages = [page for page in reading(settings).pages.values() if page.get(names.WORKER_INFO.name)]
    return views.workers_by_pages([_worker(page) for page in pages])


def _worker(page: Page) -> views.PagedWorker:
    def total(name: str) -> float:
        return sum(one.value or 0.0 for one in page.get(name, ()))

    info = page[names.WORKER_INFO.name][0].labels
    states = [one.labels[Label.STATE] for one in page.get(names.WORKER_STATE.name, ()) if one.value]
    return views.PagedWorker(
        name=info.get(Label.WORKER, ""),
        state=", ".join(states) or "unknown",
        runs=total(names.ENGINE_RUNNING.name),
        waits=total(names.DOOR_WAITING.name),
        restarts=total(f"{names.ENGINE_RESTARTS.name}_total"),
    )


def pages(settings: Settings) -> Iterator[str]:
    """Yield the addresses of this home's Prometheus and Alertmanager that answer."""
    found = observing.addresses(settings.paths)
    yield from (f"{what} at {url}" for what, url in found.items())
    if "metrics" in found and (page := observing.page_of_alerts(found["metrics"])):
        yield f"rules that fire at {page}"


def _of(found: Reading, name: str) -> Sequence[Sample]:
    return [one for page in found.pages.values() for one in page.get(name, ())]


def _of_prometheus(settings: Settings) -> tuple[tuple[str, ...], str]:
    prometheus: Prometheus | None = observed.prometheus(settings)
    if prometheus is None:
        return (), ""
    try:
        firing = [one.labels for one in prometheus.instant(FIRING)]
        loudest = prometheus.instant(LOUDEST)
    except CommandError:
        return (), ""
    alerts = {f"{one.get('alertname', '')} ({one.get('severity', '')})": None for one in firing}
    return tuple(sorted(alerts)), views.loudest(loudest)


def _lost(settings: Settings) -> str:
    """Return the time, worker and cause of the last lost engine in the home's logs; empty without one."""
    last: dict[str, str] = {}
    for path in (*settings.paths.logs.glob("worker-*.log"), *settings.paths.logs.glob("controller*.log")):
        with path.open(errors="replace") as log:
            for text in log:
                if not any(event in text for event in LOST):
                    continue
                line = json.loads(text) if text.startswith("{") and text.endswith("}\n") else {}
                if str(line.get("time", "")) > last.get("time", ""):
                    last = {name: str(value) for name, value in line.items()}
    if not last:
        return ""
    why = last.get("reason") or last.get("detail") or last.get("signal") or last.get("event", "")
    return f"{last['time'][:19].replace('T', ' ')} {last.get('worker', '')}: {why}"
