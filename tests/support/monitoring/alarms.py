"""A real Prometheus with the platform's alerts; one may be hurried: the same rule with its time made shorter."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from penstock.connectors.prometheus import configuration
from penstock.connectors.prometheus.configuration import ScrapeTarget, Scraping
from penstock.local.observing import PROMETHEUS, find
from tests.support.monitoring.alert_rules import Rule
from tests.support.patience import until
from tests.support.platforms.deployed import free_port

_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SPAN = re.compile(r"(\d+)([smhd])")


def hurried(rule: Rule, pace: float, seconds: tuple[int, ...] = ()) -> Rule:
    """Return the rule with ``for``, windows and these thresholds in seconds divided by ``pace``."""
    held = {"for": _shorter(rule["for"], pace)} if "for" in rule else {}
    return {**rule, "expr": hurried_query(rule["expr"], pace, seconds), **held}


def hurried_query(query: str, pace: float, seconds: tuple[int, ...] = ()) -> str:
    """Return the query with windows and these thresholds in seconds divided by ``pace``."""
    query = re.sub(r"(?<=\[)\w+(?=\])", lambda found: _shorter(found[0], pace), query)
    for bound in seconds:
        query = re.sub(rf"(?<=[<>] ){bound}\b", f"{bound / pace:g}", query)
    return query


def _shorter(span: str, pace: float) -> str:
    whole_ms = sum(int(count) * _UNITS_MS[unit] for count, unit in _SPAN.findall(span))
    return f"{round(whole_ms / pace)}ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarms:
    """A running Prometheus: its address, its configuration (JSON), its process."""

    url: str
    config: Path
    pid: int

    def load(self, *rules: Rule) -> None:
        """Judge these rules, and no others, from now on."""
        file = self.config.with_name("drill.yaml")
        file.write_text(yaml.safe_dump({"groups": [{"name": "drill", "rules": [dict(rule) for rule in rules]}]}))
        told = json.loads(self.config.read_text())
        self.config.write_text(json.dumps({**told, "rule_files": [str(file)]}))
        os.kill(self.pid, signal.SIGHUP)
        names = sorted(rule["alert"] for rule in rules)
        until("the rules are judged", lambda: self._judged() == names, within_s=20)

    def _judged(self) -> list[str]:
        rules = [rule for group in self._api("rules")["groups"] for rule in group["rules"]]
        return sorted(rule["name"] for rule in rules if rule["health"] == "ok")

    def fires(self, alert: str) -> bool:
        return bool(self.ask(f'ALERTS{{alertname="{alert}",alertstate="firing"}}'))

    def ask(self, query: str) -> list[dict[str, Any]]:
        """Return the samples of an instant query."""
        found: list[dict[str, Any]] = self._api("query", query=query)["result"]
        return found

    def _api(self, path: str, **parameters: str) -> Any:  # noqa: ANN401  as its HTTP API answers
        answer = httpx.get(f"{self.url}/api/v1/{path}", params=parameters, trust_env=False, timeout=30).json()
        assert answer["status"] == "success", answer
        return answer["data"]


@contextmanager
def alarms(folder: Path, pages: Mapping[str, str]) -> Iterator[Alarms]:
    """Run a Prometheus that reads these pages, by instance, each second."""
    port, config, targets = free_port(), folder / "prometheus.yml", folder / "targets.json"
    found = [
        ScrapeTarget(address=httpx.URL(url).netloc.decode(), labels={"instance": instance, "role": "gateway"})
        for instance, url in pages.items()
    ]
    targets.write_text(configuration.discovered(found))
    config.write_text(
        configuration.prometheus(Scraping(targets=targets, rules=(), alertmanager="127.0.0.1:9", every_s=1))
    )
    command = [find(PROMETHEUS), f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}"]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen([*command, f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)
    running = Alarms(url=f"http://127.0.0.1:{port}", config=config, pid=process.pid)
    try:
        until("prometheus answers", lambda: _answers(running.url))
        yield running
    finally:
        process.kill()
        process.wait()


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/-/ready", trust_env=False).is_success
    except httpx.HTTPError:
        return False
