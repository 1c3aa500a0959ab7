"""Alertmanager's webhook messages for the automatic rollback: burning objectives, their begin and pace.

The contract: a POST of JSON, format version 4. Of each alert these fields are read, all others are optional: ``status``
(``firing`` or ``resolved``), ``startsAt`` (RFC 3339), ``labels`` with ``alertname``, ``severity``, ``tier``,
``objective`` and ``window``, and ``fingerprint``, which identifies the alert. Messages repeat while an alert fires, so
processing one twice must have no effect.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from penstock.slo.windows import Severity

VERSION = "4"


class NotUnderstood(Exception):
    """The message is not one of Alertmanager's; the text names the missing part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """``began_at`` is the burn's beginning in Unix seconds."""

    fingerprint: str
    alert: str
    severity: Severity
    tier: str
    objective: str
    window: str
    is_firing: bool
    began_at: float


def notices(message: object) -> tuple[Notice, ...]:
    """Return the notices of a message, without alerts that have no objective; raise ``NotUnderstood``."""
    if not isinstance(message, Mapping) or message.get("version") != VERSION:
        raise NotUnderstood(f"a message of Alertmanager's format {VERSION} is expected")
    alerts = message.get("alerts")
    if not isinstance(alerts, list):
        raise NotUnderstood("alerts: a list is expected")
    return tuple(_notice(alert) for alert in alerts if "objective" in _labels(alert))


def _notice(alert: Mapping[str, object]) -> Notice:
    labels = _labels(alert)
    try:
        return Notice(
            fingerprint=str(alert["fingerprint"]),
            alert=labels["alertname"],
            severity=Severity(labels["severity"]),
            tier=labels["tier"],
            objective=labels["objective"],
            window=labels.get("window", ""),
            is_firing=alert["status"] == "firing",
            began_at=datetime.fromisoformat(str(alert["startsAt"])).timestamp(),
        )
    except (LookupError, ValueError) as error:
        raise NotUnderstood(f"an alert lacks something that it must have: {error}") from error


def _labels(alert: object) -> Mapping[str, str]:
    labels = alert.get("labels") if isinstance(alert, Mapping) else None
    if not isinstance(labels, Mapping):
        raise NotUnderstood("alerts: each has labels")
    return labels
