"""A recording becomes figures: sums over series, quantiles of buckets, and nothing made of what was not seen."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.diagnosis.distribution import Distribution
from penstock.diagnosis.recording import METRICS, Recording, record
from penstock.diagnosis.snapshot import EngineFigures
from penstock.domain.outcome import Stage
from penstock.domain.serving.slo import Indicator
from penstock.telemetry.series import Sample
from tests.support.monitoring.measurements import SECONDS, Site, Tenant, Worker, recorded
from tests.support.scenarios.diagnoses import HEALTHY, Look

BOUNDS = (0.1, 1.0, 10.0, math.inf)


def distribution(values: list[float]) -> Distribution:
    buckets = tuple((bound, float(sum(value <= bound for value in values))) for bound in BOUNDS)
    return Distribution(count=float(len(values)), sum=sum(values), buckets=buckets)


@given(st.lists(st.floats(min_value=0, max_value=50), min_size=1), st.floats(min_value=0.01, max_value=0.99))
def test_a_quantile_lies_in_the_bucket_of_its_rank(values: list[float], q: float) -> None:
    """The estimate lies in the bucket that holds the value of that rank; beyond the last bound it is that bound."""
    rank = sorted(values)[max(0, math.ceil(q * len(values)) - 1)]
    found = distribution(values).quantile(q)
    assert found is not None
    upper = next(bound for bound in BOUNDS if rank <= bound)
    lower = max((bound for bound in BOUNDS if bound < upper), default=0.0)
    assert lower <= found <= min(upper, BOUNDS[-2])


@given(st.lists(st.floats(min_value=0, max_value=50), min_size=1))
def test_a_share_at_a_buckets_bound_is_exact(values: list[float]) -> None:
    """Of a bound that is a bucket's own, the share within it is counted and not estimated."""
    for bound in BOUNDS[:-1]:
        exact = sum(value <= bound for value in values) / len(values)
        assert distribution(values).within(bound) == pytest.approx(exact)


def test_of_no_observation_nothing_is_said() -> None:
    """An empty histogram has no mean, quantile or share."""
    empty = distribution([])
    assert (empty.mean, empty.quantile(0.5), empty.within(1.0)) == (None, None, None)


def test_every_promise_has_a_bucket_at_its_bound(look: Look) -> None:
    """What promises say of seconds can be counted exactly: each bound is a bucket of its histogram."""
    bounds = {metric.name: metric.buckets for metric in METRICS}
    where = {
        Indicator.TTFT: "penstock_visible_ttft_seconds",
        Indicator.ITL: "penstock_itl_seconds",
        Indicator.LATENCY: "penstock_request_seconds",
    }
    for one in look(HEALTHY).objectives:
        if one.indicator in where:
            assert one.within_s in bounds[where[one.indicator]]


def test_figures_are_those_that_were_seen(look: Look) -> None:
    """Means, shares and counts come back as the pages had them."""
    site = Site(
        tenants={"a": Tenant(requests=30, prompt=100, output=50), "b": Tenant(requests=10, prompt=100, output=50)},
        workers=(Worker(running=10, slots=16, waiting=3), Worker(running=6, slots=16, waiting=1)),
        loop_busy_ratio=0.25,
    )
    snapshot = look(site)
    assert snapshot.seconds == SECONDS
    assert snapshot.requests == 40
    assert [(one.name, one.share) for one in snapshot.tenants] == [("a", 0.75), ("b", 0.25)]
    (engine,) = snapshot.engines
    assert (engine.running, engine.waiting, engine.slots_used_ratio) == (8.0, 2.0, 0.5)
    assert snapshot.gateway.loop_busy_ratio == pytest.approx(0.25)
    decode = snapshot.stage(Stage.DECODE)
    assert decode is not None
    assert decode.mean_s == pytest.approx(2.0)
    assert sum(one.share for one in snapshot.stages) == pytest.approx(1.0)


def test_the_busiest_gateway_counts() -> None:
    """One gateway that computes all the time is not hidden by others that idle."""
    from penstock.diagnosis.measure import snapshot_of

    spent = tuple(
        Sample(labels={"instance": name, "state": "computing"}, value=seconds)
        for name, seconds in (("a", 1.0), ("b", 9.5), ("c", 0.5))
    )
    found = snapshot_of(Recording(seconds=10.0, increases={"penstock_loop_seconds_total": spent}, levels={}), ())
    assert (found.gateway.name, found.gateway.loop_busy_ratio) == ("b", 0.95)


def test_an_event_that_never_happened_counts_as_none_only_where_its_process_answered() -> None:
    """Without a gateway's page nobody knows of refusals; with it, a counter that has no series is at 0."""
    from penstock.diagnosis.measure import snapshot_of

    assert snapshot_of(Recording(seconds=1.0, increases={}, levels={}), ()).faults.slow_readers is None
    assert snapshot_of(recorded(HEALTHY), ()).faults.slow_readers == 0.0


def test_a_part_that_is_unknown_makes_the_sum_unknown() -> None:
    """Two gateways of which one could not be read have no known sum."""
    from penstock.diagnosis.distribution import total

    assert total([Sample(labels={}, value=1.0), Sample(labels={}, value=None)]) is None
    assert total([]) is None


def test_a_recording_asks_for_every_metric_that_it_needs() -> None:
    """Each of its metrics is asked for once, by the names of its series."""
    asked: list[str] = []

    class Window:
        seconds = 1.0

        def increases(self, name: str) -> tuple[Sample, ...]:
            asked.append(name)
            return ()

        levels = increases

    assert record(Window()).increases == {}
    assert len(asked) == len(set(asked))
    assert {name.removesuffix("_total").removesuffix("_bucket") for name in asked} >= {one.name for one in METRICS}


def test_an_engine_of_unknown_size_has_no_share_of_slots() -> None:
    """Running sequences without a known batch are no share of anything."""
    assert EngineFigures(version="v", running=3.0).slots_used_ratio is None
    assert EngineFigures(version="v", slots=8.0).slots_used_ratio is None


def test_no_share_is_more_than_all() -> None:
    """A page that was read a moment later makes no loop busier than all the time, and no promise better than kept."""
    from penstock.diagnosis.measure import snapshot_of

    spent = (Sample(labels={"instance": "a", "state": "computing"}, value=10.4),)
    found = snapshot_of(Recording(seconds=10.0, increases={"penstock_loop_seconds_total": spent}, levels={}), ())
    assert (found.gateway.loop_busy_ratio, found.gateway.loop_wants_ratio) == (1.0, 1.0)
