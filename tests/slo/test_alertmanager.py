"""Alertmanager's configuration: taken by its checker, alerts reach their receivers, and few silence others."""

import subprocess
from pathlib import Path

import pytest
import yaml

from penstock.apps import slos
from penstock.slo import files
from penstock.slo.alertmanager import EXPLAINS, Receivers
from tests.support.monitoring import promtool

RECEIVERS = Receivers(page="https://a.example/p", ticket="https://a.example/t", rollback="https://a.example/r")
ALERTS = [
    rule
    for text in slos.rule_files().values()
    for group in yaml.safe_load(text)["groups"]
    for rule in group["rules"]
    if "alert" in rule
]


@pytest.fixture(scope="module")
def configuration(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("alertmanager") / "alertmanager.yaml"
    path.write_text(files.alertmanager(RECEIVERS))
    return path


def amtool(*arguments: str | Path) -> str:
    done = subprocess.run(
        [promtool.program("amtool"), *arguments], capture_output=True, text=True, check=False, timeout=30
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def test_alertmanager_takes_it(configuration: Path) -> None:
    """The official checker finds three receivers, with and without addresses."""
    assert "3 receivers" in amtool("check-config", configuration)
    configuration.with_name("silent.yaml").write_text(files.alertmanager(Receivers()))
    amtool("check-config", configuration.with_name("silent.yaml"))


@pytest.mark.parametrize(
    ("receivers", "labels"),
    [
        ("rollback,page", ["alertname=TtftBurn", "severity=page", "objective=ttft", "tier=chat"]),
        ("ticket", ["alertname=TtftBurn", "severity=ticket", "objective=ttft", "tier=chat"]),
        ("page", ["alertname=LimitsStoreAway", "severity=page"]),
        ("ticket", ["alertname=KvExhausted", "severity=ticket"]),
        ("ticket", ["alertname=Unheard"]),
    ],
)
def test_alerts_reach_whom_they_should(configuration: Path, receivers: str, labels: list[str]) -> None:
    """A page reaches the person on call, a page about a promise the rollback first, and an unknown alert is not
    lost.
    """
    amtool("config", "routes", "test", f"--config.file={configuration}", f"--verify.receivers={receivers}", *labels)


def test_each_alert_has_somebody() -> None:
    """No alert that ships has another severity than those that are routed."""
    assert {rule["labels"]["severity"] for rule in ALERTS} == {"page", "ticket"}


def test_only_alerts_that_exist_explain_one_another() -> None:
    """An inhibition by a name that was changed would silence nothing, or the wrong thing."""
    known = {rule["alert"] for rule in ALERTS}
    assert set(EXPLAINS) | {name for symptoms in EXPLAINS.values() for name in symptoms} <= known


def test_no_cause_silences_a_burning_promise() -> None:
    """Callers feel it whatever the reason, and the rollback must hear of it."""
    burning = {rule["alert"] for rule in ALERTS if "window" in rule["labels"]}
    assert burning & {name for symptoms in EXPLAINS.values() for name in symptoms} == set()
    found = yaml.safe_load(files.alertmanager(RECEIVERS))
    assert found["inhibit_rules"][0]["target_matchers"] == ['severity="ticket"']
