"""Metrics of limits, ledger and bills; part of the catalogue in ``names.py``."""

from penstock.telemetry.definitions import Label, Metric, MetricKind

LIMITS_REACH = Metric(
    name="penstock_limits_reach",
    kind=MetricKind.GAUGE,
    help="1 for what decides limits: shared (the store), alone (store away: this gateway's part), returning (both).",
    labels=(Label.STATE,),
)
LIMITS_GATEWAYS = Metric(
    name="penstock_limits_gateways",
    kind=MetricKind.GAUGE,
    help="Gateways that share the limits, as this one counts; without the store it grants each limit divided by this.",
)
LIMITS_ALONE = Metric(
    name="penstock_limits_alone",
    kind=MetricKind.COUNTER,
    help="Limit decisions without the shared store, by policy: closed, share, open.",
    labels=(Label.REASON,),
)
SPOOL_FULL = Metric(
    name="penstock_spool_full",
    kind=MetricKind.GAUGE,
    help="1 while the disk of a gateway's spool refuses writes: requests that need a ledger row are refused.",
)
DISK_USED_RATIO = Metric(
    name="penstock_disk_used_ratio",
    kind=MetricKind.GAUGE,
    help="Used share of the file system of a gateway's spool; 0 in other processes.",
)
RESERVATIONS_OVERDUE = Metric(
    name="penstock_reservations_overdue",
    kind=MetricKind.GAUGE,
    help="Reservations that are still held a minute after the deadline of their request.",
)
LEDGER_DELIVERED_AT = Metric(
    name="penstock_ledger_delivered_timestamp_seconds",
    kind=MetricKind.GAUGE,
    help="Unix time at which this gateway last had no undelivered ledger row.",
)
LEDGER_ROWS_REFUSED = Metric(
    name="penstock_ledger_rows_refused",
    kind=MetricKind.COUNTER,
    help="Rows that the ledger refused as invalid; they are set aside in the spool folder.",
)
USAGE_DIFFERS = Metric(
    name="penstock_usage_differs",
    kind=MetricKind.COUNTER,
    help="Answers whose engine reported another usage than the gate counted; the gate's count is billed.",
    labels=(Label.API,),
)
EMPTY_BILLS = Metric(
    name="penstock_empty_bills",
    kind=MetricKind.COUNTER,
    help="Complete answers that were billed with 0 tokens.",
    labels=(Label.API,),
)
GUESSED_BILLS = Metric(
    name="penstock_guessed_bills",
    kind=MetricKind.COUNTER,
    help="Requests billed by the gateway's own estimate because their worker could not be asked.",
    labels=(Label.OUTCOME,),
)
CAPPED_BILLS = Metric(
    name="penstock_capped_bills",
    kind=MetricKind.COUNTER,
    help="Requests whose worker reported more tokens than they could use; the bill is capped at their upper bound.",
    labels=(Label.API,),
)
