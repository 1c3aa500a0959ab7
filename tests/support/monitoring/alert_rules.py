"""The alerts on causes as they ship, and the samples that rules, runbooks and boards may read."""

from collections.abc import Mapping
from typing import Any

import yaml

from penstock.telemetry.definitions import Metric, MetricKind
from penstock.telemetry.names import CATALOGUE
from tests.support import tree

Rule = Mapping[str, Any]
FILES = sorted((tree.ROOT / "slo/alerts").glob("*.yaml"))
RULES: Mapping[str, Rule] = {
    rule["alert"]: rule
    for path in FILES
    for group in yaml.safe_load(path.read_text())["groups"]
    for rule in group["rules"]
}
_SUFFIXES = {
    MetricKind.COUNTER: ("_total",),
    MetricKind.GAUGE: ("",),
    MetricKind.HISTOGRAM: ("_bucket", "_sum", "_count"),
}
SAMPLES: Mapping[str, Metric] = {
    f"{metric.name}{suffix}": metric for metric in CATALOGUE for suffix in _SUFFIXES[metric.kind]
}
"""Metrics by the names that a query reads them by."""
