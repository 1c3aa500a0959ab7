"""Prometheus' rules: recordings, alerts, groups."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.slo.windows import Severity

BOARD = "penstock-overview"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingRule:
    record: str
    expr: str
    labels: Mapping[str, str]

    def plain(self) -> dict[str, object]:
        return {"record": self.record, "expr": self.expr, "labels": dict(self.labels)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    name: str
    expr: str
    severity: Severity
    summary: str
    effect: str
    hold: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    def plain(self) -> dict[str, object]:
        """Return the alert under Prometheus' own keys; its runbook has the alert's name."""
        return {
            "alert": self.name,
            "expr": self.expr,
            **({"for": self.hold} if self.hold else {}),
            "labels": {"severity": self.severity.value, **self.labels},
            "annotations": {
                "summary": self.summary,
                "effect": self.effect,
                "runbook": f"runbooks/{self.name}.md",
                "board": BOARD,
            },
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    name: str
    interval_s: int
    rules: tuple[RecordingRule | Alert, ...]

    def plain(self) -> dict[str, object]:
        return {"name": self.name, "interval": f"{self.interval_s}s", "rules": [rule.plain() for rule in self.rules]}
