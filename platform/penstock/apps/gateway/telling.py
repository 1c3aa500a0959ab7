"""The gateway's metrics in both formats, and its traces if a collector is configured."""

from collections.abc import Callable, Mapping

from penstock.connectors.postgres.sources import TableSource
from penstock.domain.clock import Clock
from penstock.gateway.records.traces import RequestTraces, otlp
from penstock.settings.pipeline import PipelineSettings
from penstock.supervision.exposition import Exposition, openmetrics
from penstock.telemetry import names
from penstock.telemetry.metrics import Metrics
from penstock.telemetry.pages import OPENMETRICS, Page
from penstock.telemetry.thread_times import of_this_thread


def traces(settings: PipelineSettings, clock: Clock) -> RequestTraces | None:
    return RequestTraces(otlp(settings.otlp_endpoint), clock.now, clock.monotonic) if settings.otlp_endpoint else None


def expositions(metrics: Metrics, source: TableSource) -> tuple[Exposition, Mapping[str, Page]]:
    fresh = _refreshing(metrics, source)
    return _after(fresh, metrics.exposition), {OPENMETRICS: openmetrics(_after(fresh, metrics.openmetrics))}


def _after(fresh: Callable[[], None], say: Exposition) -> Exposition:
    def expose() -> bytes:
        fresh()
        return say()

    return expose


def _refreshing(metrics: Metrics, source: TableSource) -> Callable[[], None]:
    """Return a function that refreshes gauges; it runs in the event loop's thread and reads that thread's CPU time."""
    age, refused = metrics.gauge(names.TABLE_AGE_SECONDS), metrics.counter(names.TABLES_REFUSED)
    loop, spent = metrics.counter(names.LOOP_SECONDS), dict[str, float]()
    counted = 0

    def refresh() -> None:
        nonlocal counted
        age.set(source.age_s)
        refused.inc(source.refused - counted)
        counted = source.refused
        for state, seconds in of_this_thread().items():
            loop.labels(state=state).inc(max(0.0, seconds - spent.get(state, 0.0)))
            spent[state] = seconds

    return refresh
