"""What every window of measurements promises, held against pages and a real Prometheus with the same history."""

from collections.abc import Iterator
from itertools import pairwise

import pytest

from penstock.connectors.prometheus.client import Prometheus, QuerySpan
from penstock.connectors.prometheus.page import Reading, parse
from penstock.connectors.prometheus.window import PagesWindow, PrometheusWindow
from tests.support.monitoring.prometheus import holding

pytestmark = pytest.mark.observe

Window = PrometheusWindow | PagesWindow

BEGIN, STEP, STEPS = 1_700_000_000, 5, 13
"""A minute at a reading each five seconds."""
OLD, YOUNG = BEGIN - 1000.0, BEGIN + 27.0
"""When processes and their counters began: before the window, and in it."""
HISTORY: dict[str, list[float | None]] = {
    'grows_total{a="b",instance="one:1"}': [10.0 + 2 * i for i in range(STEPS)],
    'restarts_total{instance="one:1"}': [*(100.0 + i for i in range(7)), *(float(i) for i in range(6))],
    'born_total{instance="one:1"}': [None] * 6 + [4.0] * 7,
    'started_total{instance="two:2"}': [None] * 6 + [7.0 + i for i in range(7)],
    'started_created{instance="two:2"}': [None] * 6 + [YOUNG] * 7,
    'started_total{instance="three:3"}': [None] * 6 + [5.0, 6.0, 1.0, 2.0, 3.0, 3.0, 3.0],
    'process_start_time_seconds{instance="three:3"}': [None] * 6 + [YOUNG] * 7,
    'once_total{instance="two:2"}': [None] * 12 + [9.0],
    'once_created{instance="two:2"}': [None] * 12 + [YOUNG],
    'unseen_total{instance="four:4"}': [None] * 6 + [1000.0 + i for i in range(7)],
    'unseen_created{instance="four:4"}': [None] * 6 + [OLD] * 7,
    'unseen_total{instance="five:5"}': [None] * 6 + [1000.0 + i for i in range(7)],
    'level{instance="one:1"}': [float(i) for i in range(STEPS)],
}
UP = {"one:1": -1, "two:2": 6, "three:3": 6, "four:4": 6, "five:5": 6}
"""From which step on each page is read: the last two existed before, and nobody read them."""
UNREAD = ("four:4", "five:5")


def lines(step: int, instance: str) -> list[str]:
    """Return an instance's page at a step."""
    here = f'instance="{instance}"'
    return [f"{one} {values[step]}" for one, values in HISTORY.items() if here in one and values[step] is not None]


def openmetrics() -> str:
    """Return the history as one text that promtool makes blocks of, with what a scrape adds."""
    read = {f'up{{instance="{one}"}}': [None if i < begin else 1.0 for i in range(STEPS)] for one, begin in UP.items()}
    text = [f'up{{job="j",instance="one:1"}} 1 {BEGIN - STEP}']
    for series, values in sorted((HISTORY | read).items()):
        told = series.replace("{", '{job="j",')
        text += [f"{told} {value} {BEGIN + STEP * i}" for i, value in enumerate(values) if value is not None]
    return "\n".join([*text, "# EOF\n"])


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Run one Prometheus with the history for this module."""
    with holding(tmp_path_factory.mktemp("prometheus"), openmetrics()) as url:
        yield Prometheus(url)


@pytest.fixture(params=["pages", "prometheus"])
def window(request: pytest.FixtureRequest, prometheus: Prometheus) -> Window:
    """Return each implementation in turn, over the whole minute."""
    if request.param == "prometheus":
        return PrometheusWindow(prometheus, STEP * (STEPS - 1), until=BEGIN + STEP * (STEPS - 1))
    return PagesWindow([reading(step) for step in range(STEPS)])


def reading(step: int) -> Reading:
    """Return the scrapes of a step: some processes did not answer, others were absent."""
    pages = {one: parse("\n".join([*lines(step, one), ""]), one) for one, begin in UP.items() if step >= begin}
    silent = tuple(one for one in UNREAD if one not in pages)
    return Reading(at=BEGIN + STEP * step, pages=pages, silent=silent)


def test_a_counter_grows_by_its_difference(window: Window) -> None:
    """A counter's growth comes with its own labels and its instance, and nothing of the scraper's."""
    (found,) = window.increases("grows_total")
    assert found.labels == {"a": "b", "instance": "one:1"}
    assert found.value == pytest.approx(24.0)


def test_a_restart_is_no_loss(window: Window) -> None:
    """A counter that began again grew by what it had before and what it has since."""
    (found,) = window.increases("restarts_total")
    assert found.value == pytest.approx(6.0 + 5.0)


def test_a_counter_that_appears_began_at_zero(window: Window) -> None:
    """The first value of a counter of a process that was seen before counts."""
    (found,) = window.increases("born_total")
    assert found.value == pytest.approx(4.0)


def test_a_process_that_was_born_in_the_window_counts_whole(window: Window) -> None:
    """Whatever a process did that started in the window counts, its first value too, and what follows a restart."""
    assert grown(window, "started_total") == {"two:2": 13.0, "three:3": 5.0 + 1.0 + 3.0}


def test_a_counter_that_was_seen_once_counts(window: Window) -> None:
    """One value of a counter that was born in the window is what it grew by."""
    assert grown(window, "once_total") == {"two:2": 9.0}


def test_a_counter_that_was_there_and_not_seen_is_unknown(window: Window) -> None:
    """If a page was not read at first, its later count is neither taken for new nor for nothing."""
    assert grown(window, "unseen_total") == dict.fromkeys(UNREAD)


def grown(window: Window, name: str) -> dict[str, float | None]:
    return {one.labels["instance"]: one.value for one in window.increases(name)}


def test_how_much_a_prometheus_has_seen_is_known(prometheus: Prometheus) -> None:
    """A window knows how much of it lies after its Prometheus began to read."""
    end = BEGIN + STEP * (STEPS - 1)
    assert PrometheusWindow(prometheus, 60.0, until=end).seen_s == 60.0
    assert PrometheusWindow(prometheus, 3600.0, until=end).seen_s == 60.0


def test_a_gauge_has_a_mean(window: Window) -> None:
    """Both ways average a gauge over the window."""
    assert window.levels("level")[0].value == pytest.approx(6.0)


def test_what_was_not_measured_is_absent(window: Window) -> None:
    """A name without an exporter gives no sample, and no 0."""
    assert window.increases("nothing_total") == window.levels("nothing") == ()


def test_a_real_prometheus_gives_series_over_time(prometheus: Prometheus) -> None:
    """A range query of a real Prometheus has a point each step."""
    (series,) = prometheus.range("level", QuerySpan(begin=BEGIN, end=BEGIN + 20, step_s=STEP))
    assert series.points == tuple((BEGIN + STEP * i, float(i)) for i in range(5))
    assert all(later - earlier == STEP for (earlier, _), (later, _) in pairwise(series.points))


def test_the_parts_of_a_window_add_up_to_it(prometheus: Prometheus) -> None:
    """Each half minute of a Prometheus' window grows as its values say, by the window's own queries alone."""
    window = PrometheusWindow(prometheus, STEP * (STEPS - 1), until=BEGIN + STEP * (STEPS - 1))
    halves = [window.part(30.0, before) for before in (30.0, 0.0)]
    assert [one.value for half in halves for one in half.increases("grows_total")] == [12.0, 12.0]
    assert [len(half.increases("once_total")) for half in halves] == [0, 1]
    (level,) = halves[1].levels("level")
    assert level.value == pytest.approx(8.7)  # of each second, the last value that was read
