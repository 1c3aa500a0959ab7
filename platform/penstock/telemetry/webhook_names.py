"""Metrics of webhooks; part of the catalogue in ``names.py``."""

from penstock.telemetry.definitions import Label, counter, gauge

WEBHOOK_ATTEMPTS = counter(
    "penstock_webhook_attempts",
    "Ended attempts to deliver a webhook: delivered, retried, failed (the last one), gone (410), fenced.",
    (Label.OUTCOME,),
)
WEBHOOKS_TURNED_OFF = counter(
    "penstock_webhooks_turned_off",
    "Webhook endpoints that the platform turned off: gone (410), failing (a whole schedule).",
    (Label.REASON,),
)
WEBHOOK_OLDEST_DUE_SECONDS = gauge(
    "penstock_webhook_oldest_due_seconds",
    "Seconds for which the oldest due delivery has waited for a connection, of endpoints that answer.",
)
WEBHOOK_CONNECTIONS = gauge("penstock_webhook_connections", "Open attempts to deliver webhooks.")
