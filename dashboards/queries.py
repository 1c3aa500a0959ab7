"""PromQL made from the catalogue: a metric that is renamed or loses a label breaks the build, not a board.

Every series of a board obeys the board's variables: those of them that the metric has as labels, and the zone.
"""

from dataclasses import dataclass

from penstock.slo.recorded import TIER
from penstock.slo.windows import seconds
from penstock.telemetry import names
from penstock.telemetry.definitions import Label, Metric, MetricKind
from penstock.telemetry.series import INSTANCE, STARTED

WINDOW = "$__rate_interval"
"""Grafana's own: at least four scrapes, and no finer than the picture."""
RANGE, RANGE_S = "$__range", "$__range_s"
"""The time that the board shows, as a duration and in seconds."""
VARIABLES = (Label.MODEL, Label.VERSION, Label.TIER, Label.ZONE, Label.TENANT)
"""What a board may be narrowed to, each a variable of that name."""
ROLE = "role"
TARGET_LABELS = frozenset({INSTANCE, ROLE, Label.ZONE, Label.WORKER, Label.MODEL})
"""What Prometheus adds to each series of a process (`penstock up --observe`, or its configuration in a cluster)."""
ZONELESS = frozenset(
    {
        names.WORKERS,
        names.WORKERS_WANTED,
        names.WORKER_ENDS,
        names.WORKER_LOST,
        names.TICK_SECONDS,
        names.TICK_FAILURES,
        names.IS_LEADER,
        names.TABLES_PUBLISHED,
        names.BUDGET_USED_RATIO,
        names.ROLLOUTS,
        names.ROLLOUT_SHARE_RATIO,
        names.ROLLOUT_ENDS,
        names.ROLLOUT_UNDO_PROPOSED,
        names.JUDGE_UNFIT,
        names.SCALE_WISH_WORKERS,
        names.SCALE_WORKERS,
        names.SCALE_REPLICAS,
        names.SCALE_CORDONED,
        names.SCALE_DOLLARS_PER_HOUR,
        names.SCALE_IDLE_GPU_SECONDS,
        names.SCALE_OVERRIDE_ENDS_AT,
        names.SCALE_CHANGES,
        names.DEMAND_SILENT_GATEWAYS,
    }
)
"""Series of the controller, which is one for all zones: it says nothing of the zone that it happens to be in."""


class NotInCatalogue(Exception):
    """A query asks a metric for what it does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One line, or one family of lines, of a panel; ``legend`` names each by its labels: ``{{model}}``."""

    expr: str
    legend: str


def query(expr: str, legend: str) -> Query:
    return Query(expr=expr, legend=legend)


def selector(metric: Metric, **where: str) -> str:
    """Return what stands in the braces: the variables that the metric obeys, and these labels' values by regex."""
    _check(metric, where)
    obeyed = [label for label in VARIABLES if label in metric.labels]
    if metric not in ZONELESS:
        obeyed.append(Label.ZONE)
    matchers = {str(label): f"${label}" for label in obeyed} | where
    return ",".join(f'{label}=~"{value}"' for label, value in matchers.items())


def series(metric: Metric, **where: str) -> str:
    if metric.kind is MetricKind.HISTOGRAM:
        raise NotInCatalogue(f"{metric.name} is a histogram: take a rate, a mean or a quantile of it")
    return f"{_sample(metric)}{{{selector(metric, **where)}}}"


def gauge(metric: Metric, *by: str, take: str = "sum", **where: str) -> str:
    """Return a gauge, taken together (``sum``, ``max``, ``avg``) by these labels."""
    return f"{_taken(metric, take, by)}({series(metric, **where)})"


def recorded(name: str) -> str:
    """Return what a rule records of promises, of the tiers that were chosen."""
    return f'{name}{{{TIER}=~"${Label.TIER}"}}'


def rate(metric: Metric, *by: str, window: str = WINDOW, **where: str) -> str:
    """Return events a second: of a counter, or of what a histogram has observed."""
    suffix = "_count" if metric.kind is MetricKind.HISTOGRAM else ""
    return _rate(metric, suffix, by, window, where)


def increase(metric: Metric, *by: str, window: str = RANGE, **where: str) -> str:
    """Return how much a counter grew over this window, or over the time that the board shows.

    A series born in the window counts whole: ``increase`` alone sees no rise in a series that begins above 0. Born
    means
    absent from its page before, or of a process younger than the window.
    """
    counter = series(metric, **where)
    grew, begin_s = f"increase({counter}[{window}])", RANGE_S if window == RANGE else str(seconds(window))
    pages = f"({STARTED} offset {window} or {STARTED} > time() - {begin_s})"
    born = f"(({counter} unless {counter} offset {window}) and on ({INSTANCE}) {pages})"
    return f"{_taken(metric, 'sum', by)}({born} or {grew})"


def spent(metric: Metric, *by: str, window: str = WINDOW, **where: str) -> str:
    """Return the seconds that a histogram observed in a second: of waits, the mean number that waits."""
    return _rate(metric, "_sum", by, window, where)


def quantile(ratio: float, metric: Metric, *by: str, window: str = WINDOW, **where: str) -> str:
    return f"histogram_quantile({ratio:g}, {_rate(metric, '_bucket', ('le', *by), window, where)})"


def mean(metric: Metric, *by: str, window: str = WINDOW, **where: str) -> str:
    return ratio(_rate(metric, "_sum", by, window, where), _rate(metric, "_count", by, window, where))


def ratio(part: str, whole: str) -> str:
    """Return one divided by the other, and nothing if the divisor is 0: unknown is never 0."""
    return f"{part} / ({whole} > 0)"


def _rate(metric: Metric, suffix: str, by: tuple[str, ...], window: str, where: dict[str, str]) -> str:
    name = f"{metric.name}{suffix}" if suffix else _sample(metric)
    if suffix in ("_bucket", "_sum") and metric.kind is not MetricKind.HISTOGRAM:
        raise NotInCatalogue(f"{metric.name} is no histogram")
    if metric.kind is MetricKind.GAUGE:
        raise NotInCatalogue(f"{metric.name} is a gauge: it has no rate")
    return f"{_taken(metric, 'sum', by)}(rate({name}{{{selector(metric, **where)}}}[{window}]))"


def _taken(metric: Metric, how: str, by: tuple[str, ...]) -> str:
    _check(metric, dict.fromkeys(by, ""))
    return f"{how} by ({', '.join(by)}) " if by else how


def _sample(metric: Metric) -> str:
    return f"{metric.name}_total" if metric.kind is MetricKind.COUNTER else metric.name


def _check(metric: Metric, labels: dict[str, str]) -> None:
    allowed = {*metric.labels, *TARGET_LABELS, *(("le",) if metric.kind is MetricKind.HISTOGRAM else ())}
    if unknown := [label for label in labels if label not in allowed]:
        raise NotInCatalogue(f"{metric.name} has no label {', '.join(unknown)}; it has {', '.join(metric.labels)}")
