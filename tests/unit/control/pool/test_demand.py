"""Which versions somebody waits for."""

from penstock.control.pool.demand import Demand
from penstock.domain.fleet.versions import Wanted
from penstock.domain.ids import VersionId
from tests.support.clock import ManualClock

A, B = VersionId("a@1"), VersionId("b@1")


def told(version: VersionId = A, requests: int = 1) -> Wanted:
    return Wanted(version=version, requests=requests, tokens=10)


def test_who_waits_keeps_its_age_and_who_waits_no_more_is_forgotten(clock: ManualClock) -> None:
    """Repeated each second it is one wait with its newest figures; three seconds of silence end it."""
    demand = Demand(clock)
    began = clock.now()
    for requests in range(1, 6):
        demand.take(told(requests=requests))
        clock.advance(1.0)
    assert [(one.since, one.requests) for one in demand.wanted()] == [(began, 5)]
    clock.advance(2.0)
    assert demand.wanted() == ()
    demand.take(told())
    assert demand.wanted()[0].since == clock.now()


def test_who_waits_longest_comes_first(clock: ManualClock) -> None:
    """Versions come in the order in which they began to be wanted."""
    demand = Demand(clock)
    demand.take(told(B))
    clock.advance(0.5)
    demand.take(told(A))
    demand.take(told(B))
    assert [one.version for one in demand.wanted()] == [B, A]


def test_news_is_what_begins(clock: ManualClock) -> None:
    """The first word of a wait is news, its repetition is none."""
    news = list[int]()
    demand = Demand(clock, on_news=lambda: news.append(1))
    for _ in range(3):
        demand.take(told())
    clock.advance(3.0)
    demand.take(told())
    assert len(news) == 2


def test_the_memory_is_bounded(clock: ManualClock) -> None:
    """Whoever may notify can't fill it with names; those that lapsed make room."""
    demand = Demand(clock)
    for number in range(3000):
        demand.take(told(VersionId(f"v{number}")))
    assert len(demand.wanted()) == 1000
    clock.advance(3.0)
    demand.take(told(B))
    assert [one.version for one in demand.wanted()] == [B]
