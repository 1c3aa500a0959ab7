"""Alerts, runbooks, boards and promtool cases belong together: each page leads to its runbook."""

import json
import re
from pathlib import Path

import pytest
import yaml

from dashboards import build
from penstock.apps import slos
from penstock.slo import rules
from penstock.slo.rule import Alert
from penstock.telemetry.events import EVENTS
from tests.support import tree
from tests.support.monitoring import promtool, runbooks
from tests.support.monitoring.alert_rules import RULES, SAMPLES
from tests.support.monitoring.runbooks import MOST_LINES, SECTIONS, Runbook


def _metrics(text: str) -> set[str]:
    """Return the metrics whose samples a text names."""
    return {SAMPLES[name].name for name in re.findall(r"\bpenstock_\w+", text) if name in SAMPLES}


CASES = sorted((tree.ROOT / "tests/slo/cases").glob("*.yaml"))
BOOKS = runbooks.every()
GENERATED = {
    rule.name
    for file in rules.files(slos.load(), slos.windows())
    for group in file.groups
    for rule in group.rules
    if isinstance(rule, Alert)
}
"""Alerts of promises; their cases are made as they are (``test_rules.py``)."""
BOARDS = {uid: _metrics(json.dumps(board)) for uid, board in build.boards().items()}

SLOW = (
    "AvailabilityBurn",
    "StreamCompletionBurn",
    "TtftBurn",
    "ItlBurn",
    "LatencyBurn",
    "VersionUnderPressure",
    "KvExhausted",
    "PreemptionStorm",
)
"""Alerts of which somebody asks why it is so, or whose doing it is: one command answers that."""

each_alert = pytest.mark.parametrize("alert", RULES)
each_book = pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.name)


@each_alert
def test_an_alert_leads_to_its_runbook_and_its_board(alert: str) -> None:
    """The alert's own name finds the runbook, and one board shows all that the alert reads."""
    annotations = RULES[alert]["annotations"]
    assert set(annotations) == {"summary", "effect", "runbook", "board"}
    assert annotations["runbook"] == f"runbooks/{alert}.md"
    assert _metrics(RULES[alert]["expr"]) <= BOARDS[annotations["board"]]
    assert RULES[alert]["labels"]["severity"] in {"page", "ticket"}


def test_alerts_runbooks_and_cases_are_the_same() -> None:
    """Each alert has its runbook and its case, and no runbook or case is left of an alert that is gone."""
    assert {path.stem for path in CASES} == set(RULES)
    assert {book.name for book in BOOKS} == {*RULES, *GENERATED}


def test_every_case_holds() -> None:
    """In Prometheus itself each alert fires and is silent as its case says."""
    assert promtool.failures(CASES) == {}


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_case_shows_both_sides(path: Path) -> None:
    """Each alert fires in its case, with all its texts, and keeps silent when it must."""
    checks = [one for test in yaml.safe_load(path.read_text())["tests"] for one in test["alert_rule_test"]]
    assert {one["alertname"] for one in checks} == {path.stem}
    fired = [alert for one in checks for alert in one["exp_alerts"]]
    assert fired
    assert all(alert["exp_annotations"] for alert in fired)
    assert any(not one["exp_alerts"] for one in checks)


@each_book
def test_a_runbook_is_short_and_whole(book: Runbook) -> None:
    """At three in the morning one page has to do, with the same five sections in every one."""
    assert book.text.startswith(f"# {book.name}\n")
    assert tuple(book.sections) == SECTIONS
    assert len(book.text.splitlines()) <= MOST_LINES
    assert re.match(r"\s*1\. ", book.sections["Mitigation"])
    assert book.queries("Diagnosis")
    assert book.queries("Verify")


@each_book
def test_its_commands_are_taken(book: Runbook) -> None:
    """A renamed command or option breaks this test and not the person on call."""
    assert {" ".join(command): runbooks.fault(command) for command in book.commands} == dict.fromkeys(
        map(" ".join, book.commands), ""
    )


@each_book
def test_its_queries_read_what_there_is(book: Runbook, tmp_path: Path) -> None:
    """Prometheus takes its queries, and they name metrics of the catalogue alone."""
    asked = [{"alert": f"Query{i}", "expr": query} for i, query in enumerate(book.queries())]
    promtool.check([promtool.write(tmp_path / "queries.yaml", {"groups": [{"name": "queries", "rules": asked}]})])
    read = {name for query in book.queries() for name in re.findall(r"\bpenstock_\w+", query)}
    assert read <= SAMPLES.keys()


def test_in_the_state_of_its_fault_a_runbooks_queries_show_it(tmp_path: Path) -> None:
    """While its case makes an alert fire, each query of its page that reads the series of the case answers."""
    asked = {path.stem: _in_the_fault(path) for path in CASES}
    assert [name for name, (_, queries) in asked.items() if not queries] == []
    tests = {
        promtool.write(tmp_path / f"{name}.yaml", {"evaluation_interval": "15s", "tests": [test]}): name
        for name, (test, _) in asked.items()
    }
    assert {tests[path]: why for path, why in promtool.failures(list(tests)).items()} == {}


def _in_the_fault(path: Path) -> tuple[dict[str, object], list[str]]:
    """Return a test of the queries of a page at the moment at which its case fires first, and them."""
    cases = yaml.safe_load(path.read_text())["tests"]
    case, at = next((case, one["eval_time"]) for case in cases for one in case["alert_rule_test"] if one["exp_alerts"])
    there = {re.match(r"\w+", one["series"])[0] for one in case["input_series"]}  # type: ignore[index]
    queries = [
        query for query in runbooks.of(path.stem).queries("Diagnosis") if _reads(query) and _reads(query) <= there
    ]
    checks = [{"expr": f"count({query}) > bool 0", "eval_time": at, "exp_samples": [ONE]} for query in queries]
    told = {name: case[name] for name in ("interval", "input_series")}
    return told | {"promql_expr_test": checks}, queries


def _reads(query: str) -> set[str]:
    return set(re.findall(r"\bpenstock_\w+|\bup\b", query))


@each_book
def test_its_log_events_are_logged(book: Runbook) -> None:
    """What it looks for in a log is an event of the closed list, or the beginning of some."""
    assert [event for event in book.events if not any(logged.startswith(event) for logged in EVENTS)] == []


@pytest.mark.parametrize("alert", SLOW)
def test_who_asks_why_is_told_by_diagnose_first(alert: str) -> None:
    """One command names the cause before ten queries are read at night."""
    assert runbooks.of(alert).shell("Diagnosis")[0].startswith("penstock diagnose")


@each_book
def test_it_holds_in_every_home(book: Runbook) -> None:
    """Logs are asked for by a command that knows their folder; no path is one of the default home alone."""
    assert re.findall(r"(?<!PENSTOCK_HOME:-)\.penstock\b", book.text) == []


@each_book
def test_its_queries_say_nothing_of_an_idle_platform_that_is_no_number(book: Runbook, tmp_path: Path) -> None:
    """Without events a mean is absent, and never NaN."""
    names = sorted({name for query in book.queries() for name in re.findall(r"\bpenstock_\w+", query)})
    series = [{"series": f"{name}{{{_labels(name)}}}", "values": "5x40"} for name in names]
    checks = [{"expr": f"({query}) != ({query})", "eval_time": "30m", "exp_samples": []} for query in _numbers(book)]
    test = {"interval": "1m", "input_series": series, "promql_expr_test": checks}
    path = promtool.write(tmp_path / "idle.yaml", {"evaluation_interval": "1m", "tests": [test]})
    assert promtool.failures([path]) == {}


def _labels(name: str) -> str:
    labels = [*map(str, SAMPLES[name].labels), *(["le"] if name.endswith("_bucket") else [])]
    return ",".join(f'{label}="+Inf"' for label in labels)


def _numbers(book: Runbook) -> list[str]:
    """Return the queries that may be asked twice of one moment."""
    return [query for query in book.queries() if not query.startswith(("ALERTS", "sort"))]


BORN = [query for book in BOOKS for query in book.queries() if " unless " in query]


def test_queries_see_what_begins_above_0(tmp_path: Path) -> None:
    """A series that appears with its first event has risen by it, whatever its labels are."""
    checks = [{"expr": f"count({query}) > bool 0", "eval_time": "12m", "exp_samples": [ONE]} for query in BORN]
    names = sorted({name for query in BORN for name in re.findall(r"\bpenstock_\w+", query)})
    series = [{"series": f"{name}{{{_labels(name)}}}", "values": "_x10 1x10"} for name in names]
    test = {"interval": "1m", "input_series": series, "promql_expr_test": checks}
    path = promtool.write(tmp_path / "born.yaml", {"evaluation_interval": "1m", "tests": [test]})
    assert BORN
    assert promtool.failures([path]) == {}


ONE = {"labels": "{}", "value": 1}


def test_a_wrong_command_is_found() -> None:
    """The check itself tells commands that there are from those that there are not."""
    assert runbooks.fault(["penstock", "status"]) == ""
    assert "no command" in runbooks.fault(["penstock", "mend"])
    assert "No such option" in runbooks.fault(["penstock", "audit", "--sinec", "now"])
    assert runbooks.fault(["penstock", "restart", "everything"])
    assert runbooks.fault(["penstock", "aliases", "set", "chat"])
