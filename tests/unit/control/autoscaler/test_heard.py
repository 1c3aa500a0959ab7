"""Reports over time: what is waited for, since when, and when it is news."""

from dataclasses import replace

from penstock.control.autoscaler.heard import HeardDemand
from penstock.domain.fleet.demand import GatewayReport, HeldNow
from penstock.domain.fleet.versions import Wanted
from penstock.domain.ids import VersionId
from penstock.scaling.constants import SILENT_S
from tests.support.clock import ManualClock

A, B = VersionId("a@1"), VersionId("b@1")


def told(number: int, *held: tuple[VersionId, float], gateway: str = "g") -> GatewayReport:
    waits = tuple(HeldNow(version=version, requests=1, tokens=10, oldest_s=since_s) for version, since_s in held)
    return GatewayReport(gateway=gateway, began=1.0, number=number, held=waits)


def wanted(demand: HeardDemand, now: float) -> tuple[Wanted, ...]:
    return demand.demand().wanted(now)


def test_a_wait_keeps_its_age_and_ends_with_the_report_that_lacks_it(clock: ManualClock) -> None:
    """Between reports its age grows; a gateway that fell silent waits for nothing."""
    demand = HeardDemand(clock)
    demand.take(told(1, (A, 2.0)))
    clock.advance(0.5)
    assert wanted(demand, 100.0) == (Wanted(version=A, requests=1, tokens=10, since=97.5),)
    demand.take(told(2))
    assert wanted(demand, 100.0) == ()
    demand.take(told(3, (A, 0.0)))
    clock.advance(SILENT_S)
    assert wanted(demand, 100.0) == ()


def test_the_longest_wait_comes_first(clock: ManualClock) -> None:
    """The pool serves claims in this order."""
    demand = HeardDemand(clock)
    demand.take(told(1, (A, 1.0), (B, 3.0)))
    assert [one.version for one in wanted(demand, 100.0)] == [B, A]


def test_gateways_waits_are_added_and_the_oldest_counts(clock: ManualClock) -> None:
    """Two gateways hold for one version."""
    demand = HeardDemand(clock)
    demand.take(told(1, (A, 1.0)))
    demand.take(told(1, (A, 4.0), gateway="other"))
    assert wanted(demand, 100.0) == (Wanted(version=A, requests=2, tokens=20, since=96.0),)


def test_news_is_a_version_that_was_not_waited_for(clock: ManualClock) -> None:
    """The first report of a wait is news, its repetition is none, and a refused report is none."""
    news = list[int]()
    demand = HeardDemand(clock, on_news=lambda: news.append(1))
    for number in (1, 2, 3, 3):
        demand.take(told(number, (A, 0.0)))
    assert len(news) == 1
    demand.take(told(4))
    demand.take(replace(told(5, (A, 0.0)), gateway=""))
    assert len(news) == 1
    demand.take(told(5, (A, 0.0)))
    assert len(news) == 2
