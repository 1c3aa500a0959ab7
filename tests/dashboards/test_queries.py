"""Queries come from the catalogue, and can't ask it for what it does not have."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from dashboards import queries
from dashboards.queries import NotInCatalogue
from penstock.telemetry import names
from penstock.telemetry.series import STARTED
from tests.support.monitoring import boards, promtool


def told(
    tmp_path: Path, expr: str, series: Mapping[str, str], expected: Mapping[str, float], *, at: str = "10m"
) -> None:
    """Check what Prometheus answers to a query, by labels; the values of series are a minute apart."""
    given = [{"series": name, "values": values} for name, values in series.items()]
    samples = [{"labels": labels, "value": value} for labels, value in expected.items()]
    check = {"expr": expr, "eval_time": at, "exp_samples": samples}
    test = {"interval": "1m", "input_series": given, "promql_expr_test": [check]}
    path = promtool.write(tmp_path / "test.yaml", {"evaluation_interval": "1m", "tests": [test]})
    assert promtool.failures([path]) == {}


def test_a_series_obeys_the_variables_that_it_can(tmp_path: Path) -> None:
    """A metric is narrowed by those variables that it has as labels, and by the zone; others would hide it."""
    chosen = {"model": "a", "tenant": "x", "tier": "none", "zone": "z"}
    callers = (("a", "x", "z"), ("b", "x", "z"), ("a", "y", "z"), ("a", "x", "y"))
    requests = {
        f'penstock_requests_total{{model="{model}",tenant="{tenant}",zone="{zone}"}}': "0+60x10"
        for model, tenant, zone in callers
    }
    rate = boards.filled(queries.rate(names.REQUESTS, "model"), window="5m", values=chosen)
    told(tmp_path, rate, requests, {'{model="a"}': 1.0})
    used = {
        f'penstock_kv_used_ratio{{version="v",zone="{zone}"}}': f"{ratio}x10"
        for zone, ratio in (("z", 0.5), ("y", 0.9))
    }
    most = boards.filled(queries.gauge(names.KV_USED_RATIO, take="max"), values=chosen)
    told(tmp_path, most, used, {"{}": 0.5})


def test_the_controllers_series_are_of_no_zone() -> None:
    """Who looks at one zone still sees the fleet, whichever zone the controller is in."""
    assert "zone" not in queries.series(names.WORKERS)


def test_a_value_of_ones_own_wins_over_the_variable() -> None:
    """A panel about one model's tier says so, whatever is chosen above."""
    assert queries.selector(names.TTFT_SECONDS, tier="chat") == 'model=~"$model",tier=~"chat",zone=~"$zone"'


def test_a_share_of_nothing_is_nothing(tmp_path: Path) -> None:
    """Without events a ratio has no value: unknown is never 0, and never a division by it."""
    told(tmp_path, queries.ratio("a", "b"), {"a": "1x10", "b": "4x10"}, {"{}": 0.25})
    told(tmp_path, queries.ratio("a", "b"), {"a": "0x10", "b": "0x10"}, {})
    assert queries.mean(names.TICK_SECONDS).endswith("> 0)")


GROWN = {
    "new tenant": ("_x15 1x10", "0x25", 1),
    "new process": ("_x15 4x10", "_x15 900x10", 4),
    "first seen late": ("_x15 4x10", "_x15 0x10", 0),
    "as ever": ("0+6x25", "0x25", 60),
}
"""Values of a counter and of its process's start, a minute apart, and what it grew by in the last ten."""


@pytest.mark.parametrize("window", ["10m", queries.RANGE])
def test_what_was_born_counts_whole(tmp_path: Path, window: str) -> None:
    """A new tenant's first event was no rise; what was only not seen before is none, whatever it has counted."""
    series = {
        f'{name}{{instance="{who}",task="{who}",zone="z"}}': values
        for who, given in GROWN.items()
        for name, values in zip(("penstock_background_failures_total", STARTED), given[:2], strict=True)
    }
    query = boards.filled(queries.increase(names.BACKGROUND_FAILURES, "task", window=window))
    told(tmp_path, query, series, {f'{{task="{who}"}}': given[2] for who, given in GROWN.items()}, at="20m")


@pytest.mark.parametrize(
    "ask",
    [
        lambda: queries.rate(names.REQUESTS, "stage"),
        lambda: queries.rate(names.REQUESTS, outcom="ok"),
        lambda: queries.rate(names.KV_USED_RATIO),
        lambda: queries.quantile(0.95, names.REQUESTS),
        lambda: queries.mean(names.REQUESTS),
        lambda: queries.series(names.TTFT_SECONDS),
    ],
    ids=["label", "matcher", "rate of a gauge", "quantile of a counter", "mean of a counter", "histogram as it is"],
)
def test_what_a_metric_does_not_have_is_refused(ask: Callable[[], str]) -> None:
    """A misspelt label or the wrong kind of metric ends the build, and does not show as an empty panel at night."""
    with pytest.raises(NotInCatalogue):
        ask()
