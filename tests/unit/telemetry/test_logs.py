"""Log lines: one JSON object each, allowed fields alone, and never a reason to fail."""

import datetime as dt
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from penstock.telemetry import logs


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    """Leave no stream of these tests behind."""
    yield
    structlog.reset_defaults()


def test_a_field_that_is_not_allowed_is_dropped_and_told() -> None:
    """A careless call can't leak a body: the field goes, its absence is counted."""
    stream = io.StringIO()
    logs.configure("gateway", stream=stream)
    logs.logger().info("request", code="ok", body="secret")
    line = json.loads(stream.getvalue())
    assert line["code"] == "ok"
    assert (line["count"], line["reason"]) == (1, "fields_not_allowed")
    assert "secret" not in stream.getvalue()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_costs_lines_and_nothing_else() -> None:
    """Logging to a disk without room raises nothing."""
    stream = Path("/dev/full").open("w", buffering=1)  # noqa: SIM115  its close is what fails in the end
    logs.configure("gateway", stream=stream)
    for _ in range(1000):
        logs.logger().info("request", code="ok")
    with pytest.raises(OSError, match="No space"):
        stream.close()


def test_what_is_logged_often_is_the_loggers_line() -> None:
    """The quick way writes the line that the logger writes, and no more than the logger lets through."""
    stream = io.StringIO()
    logs.configure("gateway", stream=stream)
    told = {"request_id": "r", "outcome": "ok", "seconds": 0.5}
    logs.often("request", **told)
    logs.logger().info("request", **told)
    quick, plain = (json.loads(line) for line in stream.getvalue().splitlines())
    moments = [dt.datetime.fromisoformat(one.pop("time")) for one in (quick, plain)]
    assert list(quick.items()) == list(plain.items())
    assert dt.timedelta(0) <= moments[1] - moments[0] < dt.timedelta(minutes=1)
    logs.often("request", code="ok", body="secret")
    assert "secret" not in stream.getvalue()


def test_what_is_logged_often_has_a_level() -> None:
    """A process that logs warnings alone writes no line for each request."""
    stream = io.StringIO()
    logs.configure("gateway", level="warning", stream=stream)
    logs.often("request", code="ok")
    assert stream.getvalue() == ""
