"""What Prometheus is told, judged by its own checker."""

import json
import subprocess
from pathlib import Path

import pytest

from penstock.connectors.prometheus import configuration
from penstock.connectors.prometheus.configuration import ScrapeTarget, Scraping
from tests.support.monitoring.prometheus import program
from tests.support.tree import ROOT

TARGETS = [
    ScrapeTarget(address="127.0.0.1:9464", labels={"role": "gateway", "instance": "gateway-1"}),
    ScrapeTarget(address="127.0.0.1:40001", labels={"role": "worker", "instance": "m-1", "version": "m@0123"}),
]


def test_prometheus_takes_its_configuration_with_rules_and_targets(tmp_path: Path) -> None:
    """The official checker finds no fault in it, in the rules that it names, or in the file of targets."""
    scraping = Scraping(
        targets=tmp_path / "targets.json",
        rules=sorted((ROOT / "slo/alerts").glob("*.yaml")),
        alertmanager="127.0.0.1:9093",
        every_s=0.5,
    )
    scraping.targets.write_text(configuration.discovered(TARGETS))
    (tmp_path / "prometheus.yml").write_text(configuration.prometheus(scraping))
    told = subprocess.check_output([program("promtool"), "check", "config", tmp_path / "prometheus.yml"], text=True)
    assert told.count("rules found") == len(scraping.rules) > 0


def test_a_series_own_labels_win_over_its_target() -> None:
    """A worker's metrics say their version themselves, and a gateway speaks of versions that are not its own."""
    scraping = Scraping(targets=Path("t"), rules=(), alertmanager="a:1", every_s=5.0)
    (job,) = json.loads(configuration.prometheus(scraping))["scrape_configs"]
    assert job["honor_labels"] is True


@pytest.mark.parametrize(("every_s", "said"), [(5.0, "5000ms"), (0.25, "250ms")])
def test_the_interval_is_exact(every_s: float, said: str) -> None:
    """A part of a second is not rounded to nothing."""
    scraping = Scraping(targets=Path("t"), rules=(), alertmanager="a:1", every_s=every_s)
    assert json.loads(configuration.prometheus(scraping))["global"]["scrape_interval"] == said
