"""`penstock logs`: what processes said last, in the order in which they said it, wherever the home is."""

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli import application
from penstock.cli.logs import LineFilter, moment_before

app = application()


def said(at: str, event: str) -> str:
    return json.dumps({"event": event, "time": f"2026-11-22T{at}Z"})


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a home with logs of two gateways, a database and two engines."""
    (tmp_path / "logs").mkdir()
    logs = {
        "gateway-1": [said("10:00", "breaker_turned"), said("10:02", "source_is_away"), said("10:04", "ready")],
        "gateway-2": [said("10:01", "breaker_turned"), said("10:03", "ready")],
        "engine-a": ["old words"],
        "engine-b": ["first", "second", "third"],
    }
    for age, (name, lines) in enumerate(logs.items()):
        path = tmp_path / f"logs/{name}.log"
        path.write_text("".join(f"{line}\n" for line in lines))
        os.utime(path, (age, age))
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path))
    return tmp_path


def asked(*arguments: str) -> list[str]:
    result = CliRunner().invoke(app, ["logs", *arguments])
    assert result.exit_code == 0, result.output
    return result.output.splitlines()


@pytest.mark.usefixtures("home")
def test_lines_of_several_processes_come_in_their_order() -> None:
    """The newest stands at the end, whoever wrote it, and only what was asked for."""
    found = [json.loads(line) for line in asked("gateway", "-e", "breaker_turned", "-e", "source_")]
    assert [line["time"][11:16] for line in found] == ["10:00", "10:01", "10:02"]
    assert [json.loads(line)["event"] for line in asked("gateway", "-n", "1")] == ["ready"]


@pytest.mark.usefixtures("home")
def test_of_engines_it_is_the_last_one() -> None:
    """What tells no time is not mixed."""
    assert asked("engine", "-n", "2") == ["second", "third"]
    assert asked("engine", "-n", "9") == ["first", "second", "third"]


def test_what_was_cut_away_is_still_found(home: Path) -> None:
    """A log that has just been cut is empty: what it said a moment ago stands in its newest piece."""
    (home / "logs/gateway-1.log").rename(home / "logs/gateway-1.log.1")
    (home / "logs/gateway-1.log").touch()
    found = [json.loads(line) for line in asked("gateway", "-e", "breaker_turned", "-e", "source_")]
    assert [line["time"][11:16] for line in found] == ["10:00", "10:01", "10:02"]


def test_where_there_are_none_it_says_where_they_are(home: Path) -> None:
    """In a cluster nobody looks for a folder that is not there."""
    result = CliRunner().invoke(app, ["logs", "controller", "-e", "tick_failed"])
    assert result.exit_code != 0
    words = " ".join(result.output.split())
    assert str(home) in words.replace(" ", "") or "logs" in words
    assert "kubectl logs --all-containers POD | grep -e tick_failed" in words


def test_lines_are_chosen_by_level_age_and_request() -> None:
    """A level takes those above it; other programs' lines have none of the three, and are left out."""
    warning = {"level": "warning", "time": "2026-11-27T00:10:00", "request_id": "req-1"}
    assert LineFilter(level="info").takes(warning)
    assert not LineFilter(level="error").takes(warning)
    assert LineFilter(after="2026-11-27T00:09:59").takes(warning)
    assert not LineFilter(after=moment_before(1795738200.0 + 60, 30)).takes(warning)
    assert LineFilter(request="req-1").takes(warning)
    assert not LineFilter(request="req-2").takes(warning)
    assert not any(
        one.takes({}) for one in (LineFilter(level="debug"), LineFilter(after="2026"), LineFilter(request="r"))
    )
    assert LineFilter().takes({})
