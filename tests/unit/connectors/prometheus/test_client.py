"""The client of Prometheus's API: what it sends, what it makes of answers, and what it says when there are none."""

from collections.abc import Callable
from urllib.parse import parse_qs

import httpx
import pytest

from penstock.connectors.prometheus.client import Prometheus, QuerySpan
from penstock.domain.command_error import CommandError
from penstock.telemetry.series import Sample, Series

URL = "http://prometheus.test:9090"
Answer = Callable[[httpx.Request], httpx.Response]


def answering(kind: str, result: object, seen: list[httpx.Request] | None = None) -> Prometheus:
    """Return a client whose Prometheus answers this."""

    def answer(request: httpx.Request) -> httpx.Response:
        if seen is not None:
            seen.append(request)
        return httpx.Response(200, json={"status": "success", "data": {"resultType": kind, "result": result}})

    return Prometheus(f"{URL}/", httpx.MockTransport(answer))


def test_a_query_travels_as_a_form() -> None:
    """A query of any length is sent in the body, with its time where one is asked for."""
    seen: list[httpx.Request] = []
    answering("vector", [], seen).instant("up == 1", at=12.5)
    assert (seen[0].method, str(seen[0].url)) == ("POST", f"{URL}/api/v1/query")
    assert parse_qs(seen[0].content.decode()) == {"query": ["up == 1"], "time": ["12.500"]}


def test_an_instant_query_gives_a_sample_for_each_series() -> None:
    """Each series of the answer is a sample with its labels."""
    found = answering("vector", [{"metric": {"job": "gateway"}, "value": [1.0, "3.5"]}]).instant("up")
    assert found == (Sample(labels={"job": "gateway"}, value=3.5),)


@pytest.mark.parametrize(("told", "value"), [("NaN", None), ("+Inf", float("inf")), ("0", 0.0)])
def test_what_is_no_number_is_unknown(told: str, value: float | None) -> None:
    """A value that is no number is unknown and never 0, while 0 and infinity are values."""
    assert answering("vector", [{"metric": {}, "value": [1.0, told]}]).instant("x")[0].value == value


def test_nothing_measured_is_no_sample() -> None:
    """A query without a result gives no samples, rather than one of 0."""
    assert answering("vector", []).instant("absent") == ()


def test_a_scalar_is_a_sample_without_labels() -> None:
    """A scalar's one value comes as one sample."""
    assert answering("scalar", [1.0, "2"]).instant("2") == (Sample(labels={}, value=2.0),)


def test_a_range_query_gives_series_with_their_points() -> None:
    """A range query sends its span and gives points in order, unknown ones among them."""
    seen: list[httpx.Request] = []
    matrix = [{"metric": {"a": "b"}, "values": [[10, "1"], [15, "NaN"]]}]
    found = answering("matrix", matrix, seen).range("x", QuerySpan(begin=10, end=20, step_s=5))
    assert found == (Series(labels={"a": "b"}, points=((10.0, 1.0), (15.0, None))),)
    assert parse_qs(seen[0].content.decode()) == {
        "query": ["x"],
        "start": ["10.000"],
        "end": ["20.000"],
        "step": ["5.000"],
    }


def away(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("refused", request=request)


@pytest.mark.parametrize(
    ("answer", "what", "do"),
    [
        (away, "No Prometheus answers at http://prometheus.test:9090 (ConnectError).", "--prometheus"),
        (
            lambda _: httpx.Response(
                400, json={"status": "error", "errorType": "bad_data", "error": "parse error at char 3"}
            ),
            "Prometheus refused 'x y': parse error at char 3 [bad_data].",
            "Correct the query.",
        ),
        (
            lambda _: httpx.Response(503, json={"status": "error", "errorType": "timeout", "error": "query timed out"}),
            "Prometheus refused 'x y': query timed out [timeout].",
            "shorter time",
        ),
        (
            lambda _: httpx.Response(200, text="<html>"),
            "What answers at http://prometheus.test:9090 with status 200 is no Prometheus.",
            "--prometheus",
        ),
    ],
    ids=["away", "refused", "too much", "something else"],
)
def test_an_error_says_what_happened_and_what_to_do(answer: Answer, what: str, do: str) -> None:
    """Whatever goes wrong is told in words with the next step."""
    with pytest.raises(CommandError) as told:
        Prometheus(URL, httpx.MockTransport(answer)).instant("x y")
    assert told.value.what == what
    assert do in told.value.do


def test_an_error_names_no_password() -> None:
    """An address may hold a name and a password, which no message repeats."""
    with pytest.raises(CommandError) as told:
        Prometheus("http://me:hush@prometheus.test:9090", httpx.MockTransport(away)).instant("up")
    assert told.value.what == "No Prometheus answers at http://prometheus.test:9090 (ConnectError)."


def test_an_answer_of_another_kind_is_refused() -> None:
    """An instant query whose result is a matrix is told apart from one of nothing."""
    with pytest.raises(CommandError, match="answered a matrix"):
        answering("matrix", []).instant("x[5m]")
