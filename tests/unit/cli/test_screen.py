"""What the command line shows on a narrow screen: nothing of a name or an address is cut."""

import io
from typing import Any

import pytest
from rich.console import Console

from penstock.cli import screen as printed
from penstock.cli import status
from penstock.settings import Settings
from penstock.views import status as views
from penstock.views import versions
from penstock.views.elements import listing

VERSION = "all-minilm-l6-v2-instruct@0123456789ab"
WORKER = "smollm2-135m-instruct-1a2b3c4d"
ADDRESS = "http://127.0.0.1:36169/metrics"


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Have everything printed on a screen of 80 columns."""
    written = io.StringIO()
    console = Console(file=written, width=80, color_system=None)
    monkeypatch.setattr(printed, "out", console)
    return written


def worker(**changes: Any) -> dict[str, Any]:  # noqa: ANN401  any field
    phases = [{"phase": name, "seconds": 12.3} for name in ("fetch", "verify", "start", "load", "compile", "warm up")]
    load = {"running": 12, "waiting": 34, "kv_used_ratio": 0.5}
    plain = {"id": WORKER, "state": "ready", "phases": phases, "load": load, "restarts": 1, "age_s": 0.4}
    plain |= {"machine_s": 0.0, "image_s": 0.0}
    return {**plain, "detail": "", "draining": False, **changes}


def test_status_fits_eighty_columns(screen: io.StringIO) -> None:
    """No address, version or worker's name is cut or broken, and no line is longer than the screen."""
    printed.show(views.workers([worker(), worker(state="warming", draining=True, age_s=99.0)], 5.0))
    found = [{"id": VERSION, "task": "generate", "replicas": 2, "aliases": ["smollm2", "chat", "default"]}]
    printed.show(versions.running(found))
    printed.show(
        listing("Processes", ("process", "pid", "MB", "CPU s", "metrics"), [("gateway 1", 123456, 310, 12.5, ADDRESS)])
    )
    lines = screen.getvalue().splitlines()
    assert max(len(line) for line in lines if "phases in s" not in line) <= 80
    text = screen.getvalue()
    assert (text.count(WORKER), text.count(VERSION), text.count(ADDRESS)) == (3, 1, 1)  # once more before what it says
    assert "silent, was warming" in text


@pytest.mark.parametrize(
    ("changes", "load"),
    [({}, "12+34"), ({"state": "draining"}, "12+34"), ({"state": "failed"}, "-"), ({"age_s": 99.0}, "-")],
    ids=["ready", "drains", "engine dead", "silent"],
)
def test_load_is_shown_of_engines_that_speak(screen: io.StringIO, changes: dict[str, Any], load: str) -> None:
    """What an engine ran before it died is no load of now."""
    printed.show(views.workers([worker(phases=[], **changes)], 5.0))
    assert ("12+34" in screen.getvalue()) == (load == "12+34")


def test_the_dead_stand_apart(screen: io.StringIO) -> None:
    """Whoever counts the workers counts no dead ones; why they went is told below."""
    silent, stopped = worker(id="w-silent", age_s=99.0), worker(id="w-stopped", state="stopped", detail="gave up")
    printed.show(views.workers([silent, worker(id="w-live"), stopped, worker(id="w-failed", state="failed")], 5.0))
    present, gone = screen.getvalue().split("Workers gone of late")
    assert [name for name in ("w-live", "w-failed") if name not in present] == []
    assert [
        name for name in ("w-silent", "w-stopped", "silent, was ready", "99 s ago", "gave up") if name not in gone
    ] == []
    assert "w-s" not in present


def test_no_word_of_the_dead_where_there_are_none(screen: io.StringIO) -> None:
    """A platform that is well shows no empty table of them."""
    printed.show(views.workers([worker()], 5.0))
    assert "gone" not in screen.getvalue()


def test_what_is_too_wide_comes_as_blocks(screen: io.StringIO) -> None:
    """A row that no table of 80 columns holds is told by name and value, whole."""
    long = "x" * 100
    printed.show(
        listing("Keys", ("id", "tenant", "models", "bounds"), [("k1", "shop", VERSION, long), ("k2", "other", "", "")])
    )
    lines = [line.rstrip() for line in screen.getvalue().splitlines()]
    assert lines[:5] == ["Keys", "k1", f"  tenant shop · models {VERSION}", f"  bounds {long}", "k2"]
    assert lines[5] == "  tenant other"


def test_status_says_when_certificates_end() -> None:
    """It says until when those that it can see are valid, and that one has ended; nothing where there is none."""
    now = 1_800_000_000.0
    assert views.certificates(None, None, now) == []
    first, second = views.certificates(now + 5400, now - 1, now)[0].split(", ")
    assert first == "certificates: the controller's until 2027-01-15 09:30:00 (1.5 h)"
    assert second == "yours until 2027-01-15 07:59:59 (HAS ENDED)"


@pytest.mark.parametrize(
    ("told", "is_shared", "expected"),
    [
        ({"url": "https://c"}, True, "shared by all gateways in the limits store"),
        ({"url": "https://c"}, False, "counted by each gateway for itself; the controller knows no store of limits"),
        ({"limits_url": "redis://:x@r:1"}, True, "shared by all gateways in redis://:***@r:1"),
        ({"limits_url": "redis://mine", "url": "https://c"}, True, "shared by all gateways in the limits store"),
        ({"gateways": 2}, False, "NOT HELD; 2 gateways share none (PENSTOCK_LIMITS_URL)"),
        ({}, False, "counted by the one gateway"),
    ],
)
def test_status_says_where_limits_are_counted(told: dict[str, Any], is_shared: bool, expected: str) -> None:
    """Of a fleet it said "counted by the one gateway", out of the operator's own settings; the controller knows."""
    settings = Settings().model_copy(update=told)
    assert views.limits(status._limits(settings, is_shared=is_shared))[0] == f"limits and budgets: {expected}"


def test_a_limits_store_that_is_away_is_not_said_to_be_shared() -> None:
    """With Redis down it still said "shared by all gateways"."""
    settings = Settings().model_copy(update={"limits_url": "redis://r:1"})
    told = views.limits(status._limits(settings, is_shared=True, away=2))[0]
    assert told == "limits and budgets: NOT SHARED; 2 gateways lack redis://r:1"
