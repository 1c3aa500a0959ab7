"""Rollouts on the screen: what a person at the keyboard has to know without looking anything up."""

from typing import Any

import pytest

from penstock.cli import screen
from penstock.views import comparison, rollouts

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
    screen.show(rollouts.shown(one))
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
        f"`penstock rollout resume chat --reason WHY` goes on from here, {rollouts._OTHERS}",
    ]
    assert told[-3:] == [
        "history (UTC)",
        "-  running  shadow   K1: new weights",
        "1970-01-01 00:01:00  held     50 %     controller: no proof after 60 s at 50 %",
    ]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"state": "done"}, f"`penstock models scale {OLD} 0` ends them"),
        ({"state": "done"}, f"`penstock aliases set chat {OLD}` goes back"),
        ({"state": "aborted"}, f"`penstock models scale {NEW} 0` ends them"),
        ({"proposed": True, "proposes": "abort"}, "proposes to abort it: `penstock rollout abort chat --reason WHY`"),
        (
            {"state": "held", "blast": {"out": [], "first": [], "tokens_ratio": 0.3}},
            "it has 57% of the tokens, and 30% may: resumed, it is held again",
        ),
    ],
)
def test_the_screen_says_what_there_is_to_do(
    changes: dict[str, Any], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whose workers run on, how to go back, what is proposed, and that a resumed one would be held again."""
    judgement = {"version": NEW, "verdict": "wait", "findings": [], "unfit": "", "tokens_ratio": 0.57}
    told = "\n".join(shown(rollout(**changes, judgement=judgement), capsys))
    assert says in told
    assert "it had 57.0% of both versions' tokens" in told


def test_a_finding_says_how_many_requests_it_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    """A strength above 1 that decides nothing has too small a sample; 0 of 0 is said in words."""
    cut = finding("cut", "wait", 6.28, "0 of 20, the incumbent 0 of 300") | {"lacks": 80}
    empty = finding("empty", "wait", None, "0 of 0, the incumbent 0 of 300")
    judgement = {"version": NEW, "verdict": "wait", "findings": [cut, empty], "unfit": "", "tokens_ratio": None}
    told = " ".join(" ".join(shown(rollout(judgement=judgement), capsys)).split())
    assert "0 of 20, the incumbent 0 of 300; 80 more needed" in told
    assert "none yet, the incumbent 0 of 300" in told


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
    screen.show(rollouts.planned("chat", {"stages": [stage], "takes_s": None, "per_s": 0.0051, "over_s": 3900.0}))
    told = capsys.readouterr().out
    assert told.splitlines()[0] == "chat: requests 18/h on average over the last 65 min"
    assert all(words in told for words in ("0.18/h", "too thin", "112 days", "--hours 24"))
