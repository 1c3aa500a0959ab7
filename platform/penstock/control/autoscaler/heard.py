"""Merges gateways' reports into the present demand; in memory, in seconds in which this process ran.

Trade-off: a new leader learns held requests within a second, and rates within ``RATE_S``.
"""

from collections.abc import Callable

from penstock.domain.clock import Clock
from penstock.domain.fleet.demand import Demand, GatewayReport
from penstock.scaling.reports import Reports


class HeardDemand:
    """``on_news`` is called when requests begin to be held for a version."""

    def __init__(self, awake: Clock, on_news: Callable[[], None] = lambda: None) -> None:
        self._awake = awake
        self._on_news = on_news
        self._reports = Reports()

    def take(self, report: GatewayReport) -> None:
        now = self._awake.monotonic()
        before = self._reports.held(now)
        if self._reports.take(report, now) and any(one.version not in before for one in report.held):
            self._on_news()

    def demand(self) -> Demand:
        return self._reports.demand(self._awake.monotonic())
