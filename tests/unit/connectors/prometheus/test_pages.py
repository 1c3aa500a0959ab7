"""Pages of metrics read without a Prometheus: what counts as known, and how counters grow between readings."""

from collections.abc import Mapping

import httpx
import pytest

from penstock.connectors.prometheus.page import Reading, parse, read
from penstock.connectors.prometheus.window import PagesWindow
from penstock.telemetry.series import Sample

ONE, TWO = "http://one:1/metrics", "http://two:2/metrics"


def reading(at: float, pages: Mapping[str, str], silent: tuple[str, ...] = ()) -> Reading:
    parsed = {address: parse(text, address[7:12]) for address, text in pages.items()}
    return Reading(at=at, pages=parsed, silent=silent)


def by_instance(samples: tuple[Sample, ...]) -> dict[str, float | None]:
    return {sample.labels["instance"]: sample.value for sample in samples}


def test_a_page_is_read_with_whose_it_is() -> None:
    """Samples have their labels and their process, and what is no number is unknown."""
    page = parse('# TYPE penstock_x counter\npenstock_x_total{a="b"} 3\npenstock_y NaN\n', "one:1")
    assert page["penstock_x_total"] == (Sample(labels={"a": "b", "instance": "one:1"}, value=3.0),)
    assert page["penstock_y"] == (Sample(labels={"instance": "one:1"}, value=None),)


def test_a_process_that_does_not_answer_is_named() -> None:
    """A page that is away, an error or no page of metrics is silent, and the others are read."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.host == "away":
            raise httpx.ConnectError("refused", request=request)
        return httpx.Response(200 if request.url.host == "one" else 500, text="x 1\n")

    found = read([ONE, TWO, "http://away:3/metrics"], 7.0, httpx.MockTransport(answer))
    assert (found.at, list(found.pages), found.silent) == (7.0, [ONE], (TWO, "http://away:3/metrics"))


def test_a_counter_grows_by_its_difference() -> None:
    """The window lasts from the first to the last reading, and a counter grew by the difference."""
    window = PagesWindow([reading(10, {ONE: "x_total 5\n"}), reading(14, {ONE: "x_total 9\n"})])
    assert window.seconds == 4.0
    assert by_instance(window.increases("x_total")) == {"one:1": 4.0}


def test_a_restarted_counter_grew_by_what_it_has() -> None:
    """A counter that became less began again at 0 in between."""
    texts = ("x_total 50\n", "x_total 60\n", "x_total 3\n")
    window = PagesWindow([reading(at, {ONE: text}) for at, text in enumerate(texts)])
    assert by_instance(window.increases("x_total")) == {"one:1": 13.0}


def test_a_new_series_and_a_new_process_began_at_zero() -> None:
    """What appears on a page that was there, or with a process that was not, counts whole."""
    window = PagesWindow([reading(0, {ONE: "y 1\n"}), reading(1, {ONE: "x_total 2\n", TWO: "x_total 7\n"})])
    assert by_instance(window.increases("x_total")) == {"one:1": 2.0, "two:2": 7.0}


def test_a_page_that_was_silent_at_first_is_unknown() -> None:
    """Nobody knows how much of a counter is older than the window where its page did not answer before."""
    window = PagesWindow(
        [reading(0, {ONE: "x_total 0\n"}, (TWO,)), reading(1, {ONE: "x_total 2\n", TWO: "x_total 7\n"})]
    )
    assert by_instance(window.increases("x_total")) == {"one:1": 2.0, "two:2": None}


def test_a_page_that_is_silent_for_a_moment_goes_on_where_it_was() -> None:
    """A reading that a page missed changes nothing of what it grew by."""
    window = PagesWindow([reading(0, {ONE: "x_total 1\n"}), reading(1, {}, (ONE,)), reading(2, {ONE: "x_total 4\n"})])
    assert by_instance(window.increases("x_total")) == {"one:1": 3.0}


def test_a_process_that_went_keeps_what_it_did() -> None:
    """What a process counted before it ended is part of the window."""
    window = PagesWindow([reading(0, {ONE: "x_total 1\n"}), reading(1, {ONE: "x_total 4\n"}), reading(2, {TWO: ""})])
    assert by_instance(window.increases("x_total")) == {"one:1": 3.0}


def test_a_gauge_has_a_mean() -> None:
    """Gauges are averaged over the readings that knew them; one that was never a number is unknown."""
    texts = ("g 1\nh NaN\n", "g NaN\nh NaN\n", "g 4\nh NaN\n")
    window = PagesWindow([reading(at, {ONE: text}) for at, text in enumerate(texts)])
    assert by_instance(window.levels("g")) == {"one:1": 2.5}
    assert by_instance(window.levels("h")) == {"one:1": None}
    assert window.levels("absent") == ()


def test_one_reading_is_no_window() -> None:
    """A single reading says nothing of a time."""
    with pytest.raises(ValueError, match="two readings"):
        PagesWindow([reading(0, {})])
