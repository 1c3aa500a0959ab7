"""What `penstock explain` shows: the story, then where the time went."""

import io

import pytest
from rich.console import Console

from penstock.cli import explain
from penstock.cli import screen as printed
from penstock.clients import records

FOUND = {
    "says": ["req-1 was answered in 2.00 s.", "x" * 100],
    "timeline": [["edge", 0.0, 0.0001], ["queue", 0.0001, 1.5], ["decode", 1.5001, 0.4999]],
    "seconds": 2.0,
}


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Have everything printed on a screen of 80 columns, and the gateways know one request."""
    written = io.StringIO()
    monkeypatch.setattr(printed, "out", Console(file=written, width=80, color_system=None))
    monkeypatch.setattr(records, "find", lambda gateways, key, request: FOUND)
    return written


def test_the_story_comes_before_the_timeline(screen: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each sentence begins a line, each stage has a bar where it lies in the time, and nothing is wider than 80."""
    monkeypatch.setenv("PENSTOCK_KEY", "psk_1")
    explain.explain("req-1", key="psk_1")
    lines = screen.getvalue().splitlines()
    assert lines[0] == "req-1 was answered in 2.00 s."
    assert max(map(len, lines)) <= 80
    edge, queue, decode = lines[-3:]
    assert edge.split()[0] == "edge"
    assert edge.count("█") == 1
    assert queue.count("█") == 33
    assert decode.index("█") > queue.index("█")
    assert decode.rstrip().endswith("499.9 ms")
