"""Log lines: one JSON object each, allowed fields alone, and never a reason to fail."""

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
