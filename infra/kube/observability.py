"""Loads the rules and dashboards that `make alerts` and `make dashboards` build, and says which pods are scraped.

The files are read when the stack runs; a folder that is not built yet ends the run, for a cluster without alerts looks
like one that is well.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from infra.contract import processes
from infra.kube.manifest import Manifest
from infra.kube.namespaces import OPERATORS, POD_NAME, SERVING

MONITORING = "monitoring"
MONITORED = {"penstock.io/monitored": "true"}
REPOSITORY = Path(__file__).resolve().parent.parent.parent
PROMETHEUS_URL = "http://prometheus-operated.monitoring.svc:9090"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where the built files lie."""

    rules: Path
    dashboards: Path

    def files(self, folder: Path, pattern: str) -> list[Path]:
        """Return the built files of a folder in order; raises `FileNotFoundError` if there are none."""
        found = sorted(folder.glob(pattern))
        if not found:
            raise FileNotFoundError(f"{folder} holds no {pattern}: run `make alerts dashboards` first")
        return found


SAMPLES = Sources(
    rules=Path(__file__).parent / "samples" / "rules", dashboards=Path(__file__).parent / "samples" / "dashboards"
)
"""What captures load instead of the built files."""

SHIPPED = Sources(rules=REPOSITORY / "build" / "alerts", dashboards=REPOSITORY / "build" / "dashboards")
"""What `make alerts` and `make dashboards` write."""


def rules(sources: Sources) -> Iterator[Manifest]:
    """One PrometheusRule per built rule file."""
    for path in sources.files(sources.rules, "*.yaml"):
        content: object = yaml.safe_load(path.read_text(encoding="utf-8"))
        groups = content.get("groups", []) if isinstance(content, dict) else []
        yield Manifest(
            api_version="monitoring.coreos.com/v1",
            kind="PrometheusRule",
            name=f"slo-{path.stem}".lower().replace("_", "-"),
            namespace=MONITORING,
            labels=MONITORED,
            body={"spec": {"groups": groups}},
        )


def dashboards(sources: Sources) -> Iterator[Manifest]:
    """One ConfigMap per built dashboard, found by Grafana's sidecar through its label."""
    for path in sources.files(sources.dashboards, "*.json"):
        text = path.read_text(encoding="utf-8")
        json.loads(text)
        yield Manifest(
            api_version="v1",
            kind="ConfigMap",
            name=f"dashboard-{path.stem}".lower().replace("_", "-"),
            namespace=MONITORING,
            labels={"penstock.io/dashboard": "true"},
            body={"data": {path.name: text}},
        )


def operator_monitors() -> Iterator[Manifest]:
    """Every operator's pods, from the namespace of Prometheus."""
    for namespace, pods in OPERATORS.items():
        for name, port in pods.items():
            yield Manifest(
                api_version="monitoring.coreos.com/v1",
                kind="PodMonitor",
                name=f"{namespace}-{name}",
                namespace=MONITORING,
                labels=MONITORED,
                body={
                    "spec": {
                        "namespaceSelector": {"matchNames": [namespace]},
                        "selector": {"matchLabels": {POD_NAME: name}},
                        "podMetricsEndpoints": [{"portNumber": port, "interval": "30s", "scrapeTimeout": "10s"}],
                    }
                },
            )


def pod_monitors() -> Iterator[Manifest]:
    """Every pod of a workload on its own metrics port, every fifteen seconds."""
    for workload, process in processes().items():
        port, path = process.metrics
        if not port:
            continue
        endpoint = {"port": port, "path": path, "interval": "15s", "scrapeTimeout": "10s"}
        yield Manifest(
            api_version="monitoring.coreos.com/v1",
            kind="PodMonitor",
            name=workload,
            namespace=SERVING,
            labels=MONITORED,
            body={
                "spec": {
                    "selector": {"matchLabels": {"app.kubernetes.io/name": workload}},
                    "podMetricsEndpoints": [endpoint],
                }
            },
        )
