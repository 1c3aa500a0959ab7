"""The generator itself, against real processes with known behaviour: it hides no stall and invents no figure."""

import json
import os
import signal
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.support.clients.load_witness import seen
from tests.support.clients.loadtest import Patient, loadtest, program, started
from tests.support.patience import until

pytestmark = [pytest.mark.observe, pytest.mark.integration]
ONE = ("--mix", "one")
STALL_S = 3.0
AGREE = 0.03


def test_a_target_that_stands_still_can_not_hide_it(tmp_path: Path, patient: Patient) -> None:
    """Every request that was planned while the target stood still has waited for all the rest of that time."""
    log = tmp_path / "stall.json"
    habits = {"log": str(log), "stall_at_s": 2, "stall_s": STALL_S}
    with program("load_target", json.dumps(habits)) as url:
        words = ("--target", url, "--rate", 20, "--duration", 8, "--lengths", 0.05, *ONE, *patient)
        ended = loadtest(tmp_path / "run", "steady", *words)
    stalled_from, stalled_until = json.loads(log.read_text())
    shift = _began(ended.folder)
    inside = [one for one in ended.records if stalled_from <= one.planned_at + shift < stalled_until]
    assert len(inside) >= 0.5 * 20 * STALL_S
    for one in inside:
        assert one.ttft_s is not None
        assert one.ttft_s >= stalled_until - (one.planned_at + shift)
    assert statistics.median(one.lag_s for one in inside) < STALL_S / 10
    assert ended.finding("ttft") == "broken"


def test_its_figures_are_those_of_a_second_client(tmp_path: Path, patient: Patient) -> None:
    """Requests, tokens, first tokens, gaps and answers agree within 3 % with a witness that shares no code."""
    log = tmp_path / "witness.jsonl"
    target = program("load_target", json.dumps({"log": "", "first_s": 2.5, "gap_s": 0.1}))
    with target as url, program("load_witness", url, str(log)) as witnessed:
        words = ("--target", witnessed, "--rate", 8, "--duration", 10, "--lengths", 0.05, *ONE, *patient)
        ended = loadtest(tmp_path / "run", "burst", *words)
    theirs, ours = list(seen(log)), ended.records
    assert len(ours) == len(theirs) > 40
    assert sum(one.output_tokens or 0 for one in ours) == sum(one.tokens for one in theirs)
    ttft_s = [one.ttft_s for one in ours if one.ttft_s is not None]
    # What a request waited before it was sent, no witness sees: the generator counts it, and tells it as its lag.
    on_the_wire = [one.ttft_s - one.lag_s for one in ours if one.ttft_s is not None]
    pairs = {
        "TTFT": (on_the_wire, [one.ttft_s for one in theirs]),
        "ITL": ([gap for one in ours for gap in one.gaps_s], [gap for one in theirs for gap in one.gaps_s]),
        "completion": ([one.whole_s - one.lag_s for one in ours], [one.whole_s for one in theirs]),
    }
    figures: dict[str, Callable[[list[float]], float]] = {
        "mean": statistics.fmean,
        "p50": statistics.median,
        "p95": lambda values: statistics.quantiles(values, n=20)[-1],
    }
    off = {
        f"{name} {figure}": abs(of(mine) / of(its) - 1)
        for name, (mine, its) in pairs.items()
        for figure, of in figures.items()
        if (name, figure) != ("ITL", "p95")  # that one is the target's own scheduling, and no two processes share it
    }
    assert {name: round(share, 4) for name, share in off.items() if share > AGREE} == {}
    assert _locust_means(ended.folder) == {
        "TTFT": pytest.approx(1e3 * statistics.fmean(ttft_s), abs=1),
        "completion": pytest.approx(1e3 * statistics.fmean(one.whole_s for one in ours), abs=1),
    }


@pytest.mark.parametrize(
    ("says_when", "finding"), [(True, "kept"), pytest.param(False, "broken", marks=pytest.mark.drill)]
)
def test_refusals_are_expected_where_they_say_when_to_come_back(
    tmp_path: Path, patient: Patient, says_when: bool, finding: str
) -> None:
    """Under overload a refusal with Retry-After breaks nothing, one without does, and neither is a quick answer."""
    habits = {"log": "", "refuse_above": 4, "says_when": says_when}
    with program("load_target", json.dumps(habits)) as url:
        words = ("--target", url, "--capacity", 5, "--duration", 10, "--lengths", 0.1, *ONE, *patient)
        ended = loadtest(tmp_path / "run", "overload", *words)
    assert ended.finding("availability") == finding, ended.said
    (caller,) = ended.verdict["tenants"]
    assert caller["refused"] >= 20
    assert caller["refused_without_retry_after"] == (0 if says_when else caller["refused"])
    ttft = next(one for one in ended.verdict["objectives"] if one["indicator"] == "ttft")
    assert ttft["events"] == caller["whole"]


def test_a_generator_that_stood_still_leaves_no_verdict(tmp_path: Path, patient: Patient) -> None:
    """A generator that was stopped for two seconds says so, ends with 2, and blames no target."""
    run = tmp_path / "run"
    with program("load_target", json.dumps({"log": ""})) as url:
        words = ("steady", "--target", url, "--rate", 20, "--duration", 8, "--lengths", 0.05, *ONE, *patient)
        with started(run, *words) as command:
            until("requests have ended", lambda: _ended(run) > 20)
            locust = next(one for one in psutil.Process(command.pid).children() if "locust" in " ".join(one.cmdline()))
            os.kill(locust.pid, signal.SIGSTOP)
            until("it is stopped", lambda: locust.status() == psutil.STATUS_STOPPED)
            with pytest.raises(psutil.TimeoutExpired):
                locust.wait(2)
            os.kill(locust.pid, signal.SIGCONT)
            said, _ = command.communicate(timeout=60)
    assert command.returncode == 2, said
    assert "late at p99" in said
    assert "says nothing" in said


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("steady", "--target", "http://127.0.0.1:9"), "does not answer"),
        (("cheese", "--target", "http://127.0.0.1:9"), "there is no"),
        (("replay", "--target", "http://127.0.0.1:9"), "name the file with --trace"),
    ],
)
def test_what_can_not_be_done_ends_with_2(tmp_path: Path, words: tuple[str, ...], why: str) -> None:
    """A target that is away, an unknown scenario and a missing trace are told in one line."""
    ended = loadtest(tmp_path / "run", *words)
    assert ended.code == 2
    assert why in " ".join(ended.said.split())


def test_pytest_is_never_patched_by_gevent() -> None:
    """The process of the tests is untouched by Locust, whatever they use of the load test; other clients use gevent."""
    assert "locust" not in sys.modules
    patching = sys.modules.get("gevent.monkey")
    assert patching is None or not patching.is_anything_patched()


def _ended(run: Path) -> int:
    records = run / "records.jsonl"
    return records.read_bytes().count(b"\n") if records.exists() else 0


def _began(folder: Path) -> float:
    """Return the machine's monotonic time at which the run began."""
    health: dict[str, float] = json.loads((folder / "health.json").read_text())
    return health["began_at"]


def _locust_means(folder: Path) -> dict[str, float]:
    """Return the means in ms that Locust itself printed."""
    rows = (line.split() for line in (folder / "locust.log").read_text().splitlines())
    return {row[0]: float(row[5]) for row in rows if len(row) > 8 and row[0] in {"TTFT", "completion"} and "|" in row}
