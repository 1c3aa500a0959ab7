"""The page of metrics: the catalogue, in alphabetical order."""

from penstock.telemetry.definitions import MetricKind
from penstock.telemetry.names import CATALOGUE
from scripts.reference.markdown import code, table, titled

_LEAD = """Every metric that a process exports on its private listener (`/metrics`), Prometheus or OpenMetrics by what the
scraper accepts; with OpenMetrics, buckets of latencies carry exemplars that lead to traces. Labels are bounded: closed
sets, registered names, or the tenants that ask most by name and `other` for the rest
(`PENSTOCK_METRICS_TENANTS`, `PENSTOCK_METRICS_MOST_TENANTS`). A counter's name ends in `_total`; a histogram has `_bucket`,
`_sum` and `_count`. [Boards](../how-to/dashboards.md) and [alerts](../how-to/promises.md) are made of these."""


def page() -> str:
    """Return the whole page."""
    rows = []
    for metric in sorted(CATALOGUE, key=lambda one: one.name):
        name = f"{metric.name}_total" if metric.kind is MetricKind.COUNTER else metric.name
        labels = ", ".join(code(str(label)) for label in metric.labels)
        rows.append((code(name), str(metric.kind), labels, metric.help))
    return titled("Metrics", _LEAD) + "\n" + table(("metric", "kind", "labels", "what it counts"), rows)
