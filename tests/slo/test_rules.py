"""The generated rules: Prometheus takes them, each alert has a case, faults in them are noticed, and sloth agrees."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from penstock.apps import slos
from penstock.slo import rules
from penstock.slo.rule import Alert, RecordingRule
from tests.slo import mutants
from tests.support.monitoring import promtool, trials

ALL = rules.files(slos.load(), slos.windows())
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


@pytest.mark.timeout(900)  # a minute of computing, which stands back for everything else
def test_one_rule_of_each_shape_does_what_it_says(tmp_path: Path) -> None:
    """In Prometheus itself: it tells its value, fires and is silent when due; others differ in names or numbers."""
    assert failures(tmp_path, [*trials.of_each_shape(), *trials.of_each_wording()]) == {}


def failures(folder: Path, found: Sequence[trials.Trial]) -> dict[str, str]:
    """Run these trials, and return those that failed, with the reason."""
    tests = {test: trial.name for i, trial in enumerate(found) for test in trial.write(folder / str(i))}
    return {tests[path]: why for path, why in promtool.failures(list(tests)).items()}


def test_no_fault_in_an_alert_on_a_cause_goes_unnoticed(tmp_path: Path) -> None:
    """Each threshold, window, comparison and matcher is flipped, and a case fails; `make alert-mutants` flips all."""
    attempts = [*mutants.of_causes(tmp_path / "causes")]
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
