"""The log of a gateway in memory."""

import io

import pytest

from penstock.telemetry import logs


@pytest.fixture
def log() -> io.StringIO:
    """Return what the process logs."""
    stream = io.StringIO()
    logs.configure("gateway", stream=stream)
    return stream
