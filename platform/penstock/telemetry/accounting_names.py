"""Metrics of limits, ledger and bills; part of the catalogue in ``names.py``."""

from penstock.telemetry.definitions import Label, counter, gauge

LIMITS_REACH = gauge(
    "penstock_limits_reach",
    "1 for what decides limits: shared (the store), alone (store away: this gateway's part), returning (both).",
    (Label.STATE,),
)
LIMITS_GATEWAYS = gauge(
    "penstock_limits_gateways",
    "Gateways that share the limits, as this one counts; without the store it grants each limit divided by this.",
)
LIMITS_ALONE = counter(
    "penstock_limits_alone",
    "Limit decisions without the shared store, by policy: closed, share, open.",
    (Label.REASON,),
)
SPOOL_FULL = gauge(
    "penstock_spool_full",
    "1 while the disk of a gateway's spool refuses writes: requests that need a ledger row are refused.",
)
DISK_USED_RATIO = gauge(
    "penstock_disk_used_ratio", "Used share of the file system of a gateway's spool; 0 in other processes."
)
RESERVATIONS_OVERDUE = gauge(
    "penstock_reservations_overdue", "Reservations that are still held a minute after the deadline of their request."
)
LEDGER_DELIVERED_AT = gauge(
    "penstock_ledger_delivered_timestamp_seconds", "Unix time at which this gateway last had no undelivered ledger row."
)
LEDGER_ROWS_REFUSED = counter(
    "penstock_ledger_rows_refused", "Rows that the ledger refused as invalid; they are set aside in the spool folder."
)
USAGE_DIFFERS = counter(
    "penstock_usage_differs",
    "Answers whose engine reported another usage than the gate counted; the gate's count is billed.",
    (Label.API,),
)
EMPTY_BILLS = counter("penstock_empty_bills", "Complete answers that were billed with 0 tokens.", (Label.API,))
GUESSED_BILLS = counter(
    "penstock_guessed_bills",
    "Requests billed by the gateway's own estimate because their worker could not be asked.",
    (Label.OUTCOME,),
)
CAPPED_BILLS = counter(
    "penstock_capped_bills",
    "Requests whose worker reported more tokens than they could use; the bill is capped at their upper bound.",
    (Label.API,),
)
