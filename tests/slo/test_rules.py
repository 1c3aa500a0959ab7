"""The generated rules: Prometheus takes them, each alert has a case, faults in them are noticed, and sloth agrees."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.apps import slos
from penstock.slo import rules
from penstock.slo.rule import Alert, RecordingRule
from tests.slo import mutants
from tests.support.monitoring import promtool, trials

ALL = rules.files(slos.load(), slos.windows())
OFTEN = ("slo-chat-ttft", "slo-embedding-availability")
"""Promises whose rules every run tries; ``make observe-test`` and ``make check`` try all."""
MADE = [rule for file in ALL for group in file.groups for rule in group.rules]


def test_prometheus_takes_every_file(tmp_path: Path) -> None:
    """What is written loads: generated rules and the alerts on causes alike."""
    promtool.check(slos.write_rules(tmp_path))


def test_recorded_series_are_well_named() -> None:
    """A recorded series names level, metric, operation and promise."""
    for rule in MADE:
        if isinstance(rule, RecordingRule):
            assert re.fullmatch(r"tier_objective:slo_[a-z_]+:(ratio|rate5m|ratio_rate\d+[mhd])", rule.record)
            assert set(rule.labels) == {"tier", "objective"}


def test_each_rule_is_on_trial() -> None:
    """No generated rule is without a case: a recording tells a value, an alert speaks and is silent."""
    tried = {str(trial.rules[place]) for trial in trials.all_trials() for place in trial.accused}
    assert {str(rule.plain()) for rule in MADE} - tried == set()
    for trial in trials.all_trials():
        if any("alert" in trial.rules[place] for place in trial.accused):
            checks = [check for case in trial.cases for check in case.test.get("promql_expr_test", ())]
            assert any(check["exp_samples"] for check in checks)
            assert any(not check["exp_samples"] for check in checks)
            assert any("alert_rule_test" in case.test for case in trial.cases)


@pytest.mark.parametrize("of", OFTEN)
def test_rules_of_a_promise_do_what_they_say(tmp_path: Path, of: str) -> None:
    """In Prometheus itself, each rule of a promise tells its value, fires and is silent as it should."""
    assert failures(tmp_path, lambda name: name.startswith(of)) == {}


@pytest.mark.observe
@pytest.mark.timeout(600)
def test_the_rules_of_all_other_promises_do_what_they_say(tmp_path: Path) -> None:
    """So do the rules of every other promise, and the alerts on causes."""
    assert failures(tmp_path, lambda name: not name.startswith(OFTEN)) == {}


def failures(folder: Path, chosen: Callable[[str], bool]) -> dict[str, str]:
    """Run the trials with a chosen name, and return those that failed, with the reason."""
    tests = {
        test: trial.name
        for i, trial in enumerate(trials.all_trials())
        if chosen(trial.name)
        for test in trial.write(folder / str(i))
    }
    return {tests[path]: why for path, why in promtool.failures(list(tests)).items()}


@pytest.mark.observe
@pytest.mark.timeout(600)
def test_no_fault_in_a_rule_goes_unnoticed(tmp_path: Path) -> None:
    """Each threshold, window, comparison and matcher is flipped in one promise and all causes, and a case fails."""
    of_promises = mutants.of_promises(tmp_path / "promises", trials.of_one("slo-embedding-latency"))
    attempts = [*of_promises, *mutants.of_causes(tmp_path / "causes")]
    assert attempts
    assert mutants.survivors(attempts) == []


def test_alerts_say_what_to_do() -> None:
    """Each alert has its urgency, what it means for callers, a runbook of its own name and a board."""
    for rule in MADE:
        if isinstance(rule, Alert):
            plain = rule.plain()
            assert plain["annotations"] == {
                "summary": rule.summary,
                "effect": rule.effect,
                "runbook": f"runbooks/{rule.name}.md",
                "board": "penstock-overview",
            }
