"""`penstock diagnose`: what it reads and writes, what it shows, how it ends, and that what it advises exists."""

import json
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from penstock.cli import application, diagnose
from penstock.diagnosis.cases import CASES
from penstock.diagnosis.evidence import Case, Cost, Remedy
from penstock.diagnosis.snapshot import Snapshot
from penstock.domain.command_error import CommandError
from penstock.domain.models.model import EngineSettings
from penstock.domain.tenancy.tenant import Plan
from penstock.settings import Settings, load
from tests.support.monitoring.measurements import Site, recorded
from tests.support.scenarios.diagnoses import HEALTHY, LATE, NOISY, SATURATED

app = application()

RUNNER = CliRunner()
NOTHING = Snapshot(seconds=1.0)
REMEDIES = [remedy for rule in CASES for remedy in rule(NOTHING).remedies]
SETTINGS = {f"PENSTOCK_{name.upper()}" for name in Settings.model_fields}
ENGINE = {field.name for field in fields(EngineSettings)}
PLAN = {field.name for field in fields(Plan)}


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let commands find an empty home."""
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    load.cache_clear()
    yield
    load.cache_clear()


def replayed(folder: Path, site: Site, *options: str) -> tuple[int, str]:
    file = folder / "recording.json"
    diagnose.write(recorded(site, "a described minute"), file)
    done = RUNNER.invoke(app, ["diagnose", "--replay", str(file), *options])
    return done.exit_code, done.stdout


def test_a_recording_comes_back_whole(tmp_path: Path) -> None:
    """What was written to a file for somebody else is what they read."""
    recording = recorded(NOISY, "of a test")
    diagnose.write(recording, tmp_path / "r.json")
    assert diagnose.read(tmp_path / "r.json") == recording


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"says": "", "seconds": 1, "increases": {"x": 1}, "levels": {}}'])
def test_a_file_that_is_no_recording_is_refused(tmp_path: Path, text: str) -> None:
    """Anything else is told apart in words, with what to name instead."""
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(CommandError, match="no recording"):
        diagnose.read(tmp_path / "r.json")
    with pytest.raises(CommandError, match="Can't read"):
        diagnose.read(tmp_path / "gone.json")


@pytest.mark.parametrize(
    ("site", "code"),
    [(HEALTHY, 0), (SATURATED, 3), (Site(ttft_s=LATE), 4)],
    ids=["healthy", "bottleneck", "unexplained"],
)
def test_the_exit_code_says_what_was_found(tmp_path: Path, site: Site, code: int) -> None:
    """Nothing wrong ends with 0, a bottleneck with 3, a broken promise without a cause with 4."""
    assert replayed(tmp_path, site)[0] == code


def test_the_screen_shows_the_way_the_verdict_and_what_it_is_not(tmp_path: Path) -> None:
    """Stages, promises, evidence with thresholds, remedies, and every other case with its reason are on the screen."""
    _, text = replayed(tmp_path, NOISY)
    for told in (
        "queue",
        "decode",
        "Bottleneck: noisy-neighbour (loud)",
        "engine-saturated",
        "mend that first",
        "MISSED",
    ):
        assert told in text
    assert "penstock tenants plan loud weight=1" in text
    assert "✓ one tenant has most of the service: 95% (needs ≥ 50%)" in text
    for case in Case:
        assert case in text


def test_json_has_every_number(tmp_path: Path) -> None:
    """The JSON names the bottleneck, its evidence with thresholds, what was ruled out and what was left open."""
    _, text = replayed(tmp_path, SATURATED, "--json")
    told = json.loads(text)
    assert (told["verdict"], told["bottleneck"], told["of"]) == ("bottleneck", "engine-saturated", "a described minute")
    (finding,) = told["findings"]
    assert finding["evidence"][0] == {
        "says": "requests wait in the workers' queues",
        "metric": "penstock_door_waiting_requests",
        "value": 12.0,
        "sense": "≥",
        "limit": 1.0,
        "holds": True,
    }
    assert finding["at_stake"][0]["indicator"] == "ttft"
    assert {one["case"] for one in (*told["findings"], *told["ruled_out"], *told["undecided"])} == set(Case)


def test_without_a_platform_the_command_says_what_to_do() -> None:
    """In an empty home it ends with 1 and names the ways to something that measures."""
    done = RUNNER.invoke(app, ["diagnose", "--window", "1s"])
    assert done.exit_code == 1
    assert "--prometheus" in done.stderr.replace("\n", " ")


def test_only_a_prometheus_knows_the_past() -> None:
    """An end in the past without a Prometheus is refused rather than answered from the present."""
    done = RUNNER.invoke(app, ["diagnose", "--until", "2026-11-01"])
    assert done.exit_code == 1
    assert "metrics pages show only the present" in " ".join(done.stderr.split())


@pytest.mark.parametrize("remedy", REMEDIES, ids=lambda one: one.says)
def test_every_remedy_can_be_done(remedy: Remedy) -> None:
    """Each command is one of ours with options that it has, each bound a plan's, each setting a real one."""
    if remedy.setting:
        assert remedy.setting in SETTINGS | ENGINE
    if not remedy.command:
        return
    program, *words = remedy.command.split()
    command = typer.main.get_command(app)
    while words and (inner := getattr(command, "commands", None)):
        command = inner[words.pop(0)]
    known = {option for one in command.params for option in one.opts}
    assert program == "penstock"
    assert {word for word in words if word.startswith("--")} <= known
    bounds = set(re.findall(r"(\w+)=", remedy.command))
    assert bounds <= (ENGINE if "--engine" in words else PLAN)


@pytest.mark.parametrize("rule", CASES, ids=lambda rule: rule.__module__.rpartition(".")[2])
def test_remedies_come_cheapest_first(rule: object) -> None:
    """Every case has something to do, in the order of what it costs."""
    assert callable(rule)
    costs = [list(Cost).index(remedy.cost) for remedy in rule(NOTHING).remedies]
    assert costs
    assert costs == sorted(costs)
