"""A platform that is observed: questions to its Prometheus."""

from dataclasses import dataclass
from typing import Any

import httpx

from tests.support.platforms.local import Platform

SETTINGS = {"observe": "true", "scrape_s": "1"}
PATIENCE_S = 120.0
"""A busy machine's Prometheus answers late."""


@dataclass(frozen=True, slots=True)
class Observed:
    """A running platform with its own Prometheus and Alertmanager."""

    platform: Platform

    @property
    def prometheus(self) -> str:
        return (self.platform.home / "run/prometheus.addr").read_text().strip()

    @property
    def alertmanager(self) -> str:
        return (self.platform.home / "run/alertmanager.addr").read_text().strip()

    def api(self, path: str, **parameters: str | float) -> Any:  # noqa: ANN401  as its HTTP API answers
        """Ask its HTTP API; an error is an ``AssertionError`` with what it said."""
        answer = httpx.get(f"{self.prometheus}/api/v1/{path}", params=parameters, trust_env=False, timeout=PATIENCE_S)
        told = answer.json()
        assert told["status"] == "success", f"{path} {parameters}: {told}"
        return told["data"]

    def query(self, promql: str) -> list[dict[str, Any]]:
        """Return the samples of an instant query."""
        found: list[dict[str, Any]] = self.api("query", query=promql)["result"]
        return found

    def up(self) -> dict[str, dict[str, str]]:
        """Return the labels of the processes with pages in the last scrape, by instance."""
        return {one["metric"]["instance"]: one["metric"] for one in self.query("up == 1")}

    def roles(self) -> list[str]:
        return sorted(labels["role"] for labels in self.up().values())
