"""Rollouts on the screen: what a person at the keyboard has to know without looking anything up."""

from typing import Any

import pytest

from penstock.apps.cli import comparison, rollout_screen

OLD, NEW = "chat@000000000000", "chat@111111111111"


def rollout(state: str = "running", **changes: object) -> dict[str, Any]:
    """Return one as the operator API tells it, at its first share."""
    first = {"actor": "K1", "at": 0.0, "state": "running", "stage": 0, "says": "new weights"}
    stages = [{"name": "shadow"}, {"name": "50 %"}, {"name": "watched"}]
    whole = {
        "alias": "chat", "candidate": NEW, "incumbent": OLD, "id": "ro-1", "stages": stages, "stage": 1, "state": state,
        "weight": 5000, "by_person": False, "guard": False, "blast": {"out": [], "first": []}, "history": [first],
    }  # fmt: skip
    return whole | changes


def finding(metric: str, verdict: str, strength: float | None, says: str) -> dict[str, Any]:
    return {"metric": metric, "verdict": verdict, "strength": strength, "sample": 20, "says": f"{metric}: {says}"}


def shown(one: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> list[str]:
    rollout_screen.show(one)
    return [line.strip() for line in capsys.readouterr().out.splitlines() if line.strip()]


def test_tenants_that_have_their_version_whatever_the_share_is_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    """They are no part of it, also where it says 100 %; over is over."""
    blast = {"out": ["careful", "slow"], "first": ["keen"]}
    told = shown(rollout(blast=blast), capsys)
    assert told[3:5] == [
        f"careful, slow: {OLD} at every share, until it is over",
        f"keen: {NEW} at every share, until it is over",
    ]
    assert not any("careful" in line for line in shown(rollout("done", blast=blast), capsys))


def test_one_that_stands_still_says_why_and_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    """The last line of its history, and the command that goes on."""
    held = {"actor": "controller", "at": 60.0, "state": "held", "stage": 1, "says": "no proof after 60 s at 50 %"}
    told = shown(rollout("held", history=[*rollout()["history"], held]), capsys)
    assert told[3:5] == [
        "it stays here until somebody acts: no proof after 60 s at 50 %",
        "`penstock rollout resume chat --reason WHY` goes on from here, `abort` gives it all back",
    ]
    assert told[-3:] == [
        "history (UTC)",
        "-  running  shadow   K1: new weights",
        "1970-01-01 00:01:00  held     50 %     controller: no proof after 60 s at 50 %",
    ]


@pytest.mark.parametrize(
    ("verdict", "findings", "said"),
    [
        ("wait", [], "wait: nothing was told yet"),
        (
            "wait",
            [finding("cut", "promote", 2.0, "0 of 20"), finding("ttft", "wait", 0.1, "mean rank 0.50")],
            "wait: ttft: mean rank 0.50",
        ),
        (
            "abort",
            [finding("bad", "abort", 1.2, "9 of 20"), finding("ttft", "wait", 0.1, "mean rank 0.50")],
            "abort: bad: 9 of 20",
        ),
    ],
)
def test_a_line_of_the_judge_tells_what_decides_or_what_is_missing(
    verdict: str, findings: list[dict[str, Any]], said: str
) -> None:
    """A person who follows a rollout reads one line, and not the whole table."""
    assert comparison.brief({"verdict": verdict, "findings": findings}) == said


def test_a_plan_names_the_hours_it_is_of_and_says_rates_and_times_that_can_be_read(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """No figure such as 5.11e-05 a second, and no 2694.3 hours."""
    thin = {"name": "1 %", "per_s": 5.11e-05, "needs_s": None, "lacks": "too little", "workers": 1}
    stage = {**thin, "finds_s": {"2x slower": 9_700_000.0}, "worker_hours": None}
    rollout_screen.planned("chat", {"stages": [stage], "takes_s": None, "per_s": 0.0051, "over_s": 3900.0})
    told = capsys.readouterr().out
    assert told.splitlines()[0] == "chat: requests 18/h on average over the last 65 min"
    assert all(words in told for words in ("0.18/h", "too thin", "112 days", "--hours 24"))
