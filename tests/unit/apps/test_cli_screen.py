"""What the command line shows on a narrow screen: nothing of a name or an address is cut."""

import io
from typing import Any

import pytest
from rich.console import Console

from penstock.apps.cli import status, tables

VERSION = "all-minilm-l6-v2-instruct@0123456789ab"
WORKER = "smollm2-135m-instruct-1a2b3c4d"
ADDRESS = "http://127.0.0.1:36169/metrics"


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Have everything printed on a screen of 80 columns."""
    written = io.StringIO()
    console = Console(file=written, width=80, color_system=None)
    monkeypatch.setattr(tables, "out", console)
    return written


def worker(**changes: Any) -> dict[str, Any]:  # noqa: ANN401  any field
    phases = [{"phase": name, "seconds": 12.3} for name in ("fetch", "verify", "start", "load", "compile", "warm up")]
    load = {"running": 12, "waiting": 34, "kv_used_ratio": 0.5}
    plain = {"id": WORKER, "state": "ready", "phases": phases, "load": load, "restarts": 1, "age_s": 0.4}
    return {**plain, "detail": "", "draining": False, **changes}


def test_status_fits_eighty_columns(screen: io.StringIO) -> None:
    """No address, version or worker's name is cut or broken, and no line is longer than the screen."""
    status._workers([worker(), worker(state="warming", draining=True, age_s=99.0)], 5.0)
    status._models([{"id": VERSION, "task": "generate", "replicas": 2, "aliases": ["smollm2", "chat", "default"]}])
    tables.show("Processes", ("process", "pid", "MB", "CPU s", "metrics"), [("gateway 1", 123456, 310, 12.5, ADDRESS)])
    lines = screen.getvalue().splitlines()
    assert max(len(line) for line in lines if "phases in s" not in line) <= 80
    text = screen.getvalue()
    assert (text.count(WORKER), text.count(VERSION), text.count(ADDRESS)) == (2, 1, 1)
    assert "silent, was warming" in text


def test_what_is_too_wide_comes_as_blocks(screen: io.StringIO) -> None:
    """A row that no table of 80 columns holds is told by name and value, whole."""
    long = "x" * 100
    tables.show("Keys", ("id", "tenant", "models", "bounds"), [("k1", "shop", VERSION, long), ("k2", "other", "", "")])
    lines = [line.rstrip() for line in screen.getvalue().splitlines()]
    assert lines[:5] == ["Keys", "k1", f"  tenant shop · models {VERSION}", f"  bounds {long}", "k2"]
    assert lines[5] == "  tenant other"
