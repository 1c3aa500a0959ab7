"""Metrics of the audit chain, of the leading controller; part of the catalogue in ``names.py``."""

from penstock.telemetry.definitions import counter, gauge

AUDIT_LINKS = counter("penstock_audit_links", "Acts that the audit chain has linked.")
AUDIT_CHAIN_LAG_SECONDS = gauge(
    "penstock_audit_chain_lag_seconds", "Seconds for which the oldest act has waited for its link in the audit chain."
)
AUDIT_UNSHIPPED_SEGMENTS = gauge(
    "penstock_audit_unshipped_segments", "Signed segments of the audit chain that the audit bucket does not have yet."
)
