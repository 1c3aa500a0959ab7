"""Parts of a Prometheus window: read from the values of the whole, without further queries."""

from urllib.parse import parse_qs

import httpx
import pytest

from penstock.connectors.prometheus.client import Prometheus
from penstock.connectors.prometheus.window import PrometheusWindow

END, LENGTH_S, STEP_S = 1_700_000_300.0, 300.0, 5.0
TIMES = [END - LENGTH_S + STEP_S * i for i in range(61)]
VALUES = {
    "grows_total": [float(i) for i in range(61)],
    "level": [1.0 if i > 48 else 0.0 for i in range(61)],
    "up": [1.0] * 61,
}


class Counted:
    """A Prometheus with this history, which counts its queries."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        (query,) = parse_qs(request.content.decode())["query"]
        self.asked.append(query)
        values = [[at, str(value)] for at, value in zip(TIMES, VALUES.get(query, []), strict=False)]
        series = [{"metric": {"__name__": query, "instance": "g1", "job": "j"}, "values": values}] if values else []
        return httpx.Response(200, json={"status": "success", "data": {"resultType": "matrix", "result": series}})


@pytest.fixture
def history() -> Counted:
    """Return a fresh history."""
    return Counted()


def test_the_parts_of_a_counter_add_up_to_the_whole(history: Counted) -> None:
    """Five minutes grow by twelve each, and no minute asks Prometheus again."""
    window = PrometheusWindow(Prometheus("http://p", httpx.MockTransport(history)), LENGTH_S, END)
    assert [one.value for one in window.increases("grows_total")] == [60.0]
    before = list(history.asked)
    parts = [window.part(60.0, 60.0 * n) for n in range(5)]
    assert [one.value for part in parts for one in part.increases("grows_total")] == [12.0] * 5
    assert [part.seconds for part in parts] == [60.0] * 5
    assert history.asked == before


def test_a_gauge_of_a_part_is_the_mean_of_its_values(history: Counted) -> None:
    """A level that rose a minute ago is 1 in the last minute and 0 in the minute before; it is queried once."""
    window = PrometheusWindow(Prometheus("http://p", httpx.MockTransport(history)), LENGTH_S, END)
    assert [window.part(60.0, before).levels("level")[0].value for before in (0.0, 60.0)] == [1.0, 0.0]
    assert window.part(60.0, 0.0).levels("absent") == ()
    assert history.asked.count("level") == 1


def test_a_part_is_at_least_one_step(history: Counted) -> None:
    """Of a window of hours a minute is shorter than the distance of its values."""
    window = PrometheusWindow(Prometheus("http://p", httpx.MockTransport(history)), 6 * 3600.0, END)
    assert window.part(60.0, 0.0).seconds == 360.0
