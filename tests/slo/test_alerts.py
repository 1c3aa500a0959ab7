"""Alerts read metrics that exist, with labels that they have, and say what it means."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from penstock.telemetry.definitions import Kind
from penstock.telemetry.names import CATALOGUE
from slo.spec import SPECS

ALERTS = sorted((SPECS.parent / "alerts").glob("*.yaml"))
RULES = [rule for path in ALERTS for group in yaml.safe_load(path.read_text())["groups"] for rule in group["rules"]]
PROMTOOL = shutil.which("promtool") or shutil.which("promtool", path=Path(sys.executable).parent)
KNOWN = {f"{one.name}_total" if one.kind is Kind.COUNTER else one.name: one for one in CATALOGUE}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["alert"]))
def test_an_alert_reads_what_there_is(rule: dict[str, str]) -> None:
    """A renamed metric or label breaks this test and not the alarm."""
    read = re.findall(r"(penstock_\w+)(?:\{(\w+)=)?", rule["expr"])
    assert read
    for name, label in read:
        assert name in KNOWN
        assert not label or label in KNOWN[name].labels
    assert rule["annotations"]


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not here: run `make promtool`")
def test_prometheus_takes_the_alerts() -> None:
    """The official checker finds no fault."""
    assert PROMTOOL is not None
    subprocess.run([PROMTOOL, "check", "rules", *ALERTS], check=True, capture_output=True)
