"""Alertmanager's configuration: the receiver of each alert, and the alerts that explain others.

Inhibitions are few on purpose. A page silences its own ticket, and a cause silences its consequences in the platform's
code. No cause silences a burning objective: callers notice it whatever the reason, and the automatic rollback needs the
alert.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.slo.recorded import OBJECTIVE, TIER
from penstock.slo.windows import Severity

ROLLBACK = "rollback"
EXPLAINS: Mapping[str, tuple[str, ...]] = {
    "NoGatewayMeasured": ("PromiseWithoutData",),
    "DatabaseAway": ("ControllerAway", "LedgerBehind", "ProcessRestarts"),
    "LimitsStoreAway": ("LimitsNotCounted", "GatewaysDisagree"),
}
"""A cause, and the alerts that add nothing while it fires."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receivers:
    """Webhook URLs; alerts with an empty one are shown only on Alertmanager's own page."""

    page: str = ""
    ticket: str = ""
    rollback: str = ""


def plain(receivers: Receivers) -> dict[str, object]:
    urls = {Severity.PAGE.value: receivers.page, Severity.TICKET.value: receivers.ticket, ROLLBACK: receivers.rollback}
    return {
        "route": _route(),
        "inhibit_rules": [_page_over_ticket(), *(_explained(cause, by) for cause, by in EXPLAINS.items())],
        "receivers": [_receiver(name, url) for name, url in urls.items()],
    }


def _route() -> dict[str, object]:
    """Return the routing tree: the rollback is notified first and at once, since it needs seconds."""
    return {
        "receiver": Severity.TICKET.value,
        "group_by": ["alertname", TIER, OBJECTIVE],
        "group_wait": "30s",
        "group_interval": "5m",
        "repeat_interval": "1d",
        "routes": [
            {
                "receiver": ROLLBACK,
                "matchers": [f'severity="{Severity.PAGE}"', f'{OBJECTIVE}=~".+"'],
                "group_wait": "0s",
                "group_interval": "10s",
                "continue": True,
            },
            {"receiver": Severity.PAGE.value, "matchers": [f'severity="{Severity.PAGE}"'], "repeat_interval": "1h"},
        ],
    }


def _page_over_ticket() -> dict[str, object]:
    return {
        "source_matchers": [f'severity="{Severity.PAGE}"'],
        "target_matchers": [f'severity="{Severity.TICKET}"'],
        "equal": ["alertname", TIER, OBJECTIVE],
    }


def _explained(cause: str, symptoms: tuple[str, ...]) -> dict[str, object]:
    return {"source_matchers": [f'alertname="{cause}"'], "target_matchers": [f'alertname=~"{"|".join(symptoms)}"']}


def _receiver(name: str, url: str) -> dict[str, object]:
    return {"name": name, **({"webhook_configs": [{"url": url, "send_resolved": True}]} if url else {})}
