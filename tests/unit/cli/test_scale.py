"""Scaling on the command line, and in words."""

import pytest
from typer.testing import CliRunner

from penstock.cli import application, bench, screen
from penstock.views import scale
from tests.support.controllers.in_memory import Room

app = application()

RECORD = {
    "version": "m@1",
    "at": 0.0,
    "act": "scale_out",
    "before": 1,
    "after": 2,
    "wish": 2.61,
    "reason": "backlog",
    "cut": "most 2",
    "signals": [{"name": "asked_work", "value": 1.234, "unit": "worker-seconds/s", "age_s": 0.5}],
    "per_hour_before": 1.5,
    "per_hour_after": 3.0,
    "override": {"workers": 2, "until": 1000.0, "who": "anna", "reason": "a launch"},
    "idle_gpus": {"floor": 1, "slow_in": 2},
}
TARGET = {"workers": 2, "cordoned": ["w1"], "ended": [], "slept": [], "woken": ["w2"], "batch_slots": 4}
FOUND = {
    "is_on": True,
    "gateways": 1,
    "silent": ["host:2"],
    "gateways_wanted": 3,
    "versions": [{"record": RECORD, "target": TARGET}],
}


def run(*words: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, ["scale", *words])
    assert done.exit_code == code, done.output
    return done.output


def test_without_a_scale_file_it_says_so(room: Room) -> None:
    """And names the setting."""
    assert "PENSTOCK_SCALE_FILE" in run("status")
    assert "is not autoscaled" in run("explain", "m@1", code=1)
    assert "Changes" in run("history", "--limit", "3")


def test_an_override_is_asked_for_and_a_refusal_told(room: Room) -> None:
    """With its length and reason; a version without bounds is refused with the remedy."""
    said = run("set", "m@1", "2", "--for", "2h", "--reason", "a launch", code=1)
    assert "the scale file does not name m@1" in said
    assert "penstock models scale m@1" in said
    assert "no length of time" in run("set", "m@1", "2", "--for", "soon", "--reason", "a launch", code=1)
    assert "m@1" in run("clear", "m@1", code=1)


def test_a_decision_is_told_with_its_signals(capsys: pytest.CaptureFixture[str]) -> None:
    """The wish, the bound that cuts it, ages, workers by name, price, and what is silent."""
    screen.show(scale.explained(FOUND, FOUND["versions"][0]))  # type: ignore[index]
    said = capsys.readouterr().out
    for words in ("2 workers; wish 2.61, cut by most 2", "1.23 worker-seconds/s", "0.5 s", "cordoned: w1", "woken: w2"):
        assert words in said
    for words in ("override of 2 until 1970-01-01 00:16:40 by anna: a launch", "idle GPUs: 1 floor, 2 slow_in"):
        assert words in said
    for words in ("4 slots", "$1.50 to $3.00", "host:2", "1 report, 3 wanted"):
        assert words in said


def test_an_unknown_wish_is_no_number(capsys: pytest.CaptureFixture[str]) -> None:
    """In status, explain and history."""
    record = {**RECORD, "wish": None, "cut": ""}
    one = {"record": record, "target": TARGET}
    screen.show(scale.explained(FOUND, one), scale.changes([record]), scale.listed({**FOUND, "versions": [one]}))
    assert capsys.readouterr().out.count("unknown") == 3


def test_numbers_and_changes_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """With a word on gateways if none reports."""
    screen.show(scale.listed(FOUND), scale.changes([RECORD]), scale.listed({**FOUND, "silent": [], "gateways": 0}))
    said = capsys.readouterr().out
    screen.show(scale.listed({**FOUND, "silent": [f"g{number}" for number in range(12)]}))
    assert "g9 and 2 more" in " ".join(capsys.readouterr().out.split())
    assert "m@1" in said
    assert "1 → 2" in said
    assert "".join(said.split()).count("a launch".replace(" ", "")) == 3, "an override in force stands in each list"
    assert "no gateway reports" in said


@pytest.mark.parametrize(
    ("workers", "until", "may_go"), [(1, None, True), (1, 99.0, True), (1, 100.0, False), (0, None, False)]
)
def test_a_worker_that_the_autoscaler_may_end_is_not_measured(
    workers: int, until: float | None, *, may_go: bool
) -> None:
    """Above the floor it goes while it is measured, unless an override lasts until the end."""
    override = until and {"until": until}
    target = {"workers": workers, "least": 0}
    assert (
        bench._may_go([{"record": {"version": "m@1", "override": override}, "target": target}], "m@1", 100.0) is may_go
    )
    assert not bench._may_go([], "m@1", 100.0)
