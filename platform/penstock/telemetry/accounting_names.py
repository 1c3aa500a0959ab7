"""Metrics of limits, ledger and bills; part of the catalogue in ``names.py``."""

from penstock.telemetry.definitions import Kind, Label, Metric

LIMITS_REACH = Metric(
    name="penstock_limits_reach",
    kind=Kind.GAUGE,
    help="1 for who decides on limits: shared (the store), alone (this gateway's part), returning (both).",
    labels=(Label.STATE,),
)
LIMITS_GATEWAYS = Metric(
    name="penstock_limits_gateways",
    kind=Kind.GAUGE,
    help="Gateways that share the limits, as this one knows: alone it gives one part of so many.",
)
LIMITS_ALONE = Metric(
    name="penstock_limits_alone",
    kind=Kind.COUNTER,
    help="Decisions without the shared store, by what became of the limit: closed, share, open.",
    labels=(Label.REASON,),
)
RESERVATIONS_OVERDUE = Metric(
    name="penstock_reservations_overdue",
    kind=Kind.GAUGE,
    help="Reservations that are still held a minute after the deadline of their request.",
)
LEDGER_DELIVERED_AT = Metric(
    name="penstock_ledger_delivered_timestamp_seconds",
    kind=Kind.GAUGE,
    help="When this gateway last brought all rows of ended requests to the ledger, in Unix seconds.",
)
LEDGER_ROWS_REFUSED = Metric(
    name="penstock_ledger_rows_refused",
    kind=Kind.COUNTER,
    help="Rows that the ledger refused for what they say; they are set aside in the spool folder.",
)
USAGE_DIFFERS = Metric(
    name="penstock_usage_differs",
    kind=Kind.COUNTER,
    help="Answers whose engine told another usage than its gate had counted; the gate's count is billed.",
    labels=(Label.API,),
)
EMPTY_BILLS = Metric(
    name="penstock_empty_bills",
    kind=Kind.COUNTER,
    help="Answers that came to their end and were billed no token at all.",
    labels=(Label.API,),
)
GUESSED_BILLS = Metric(
    name="penstock_guessed_bills",
    kind=Kind.COUNTER,
    help="Requests whose worker could not be asked what they took: billed is the most that the gateway knows.",
    labels=(Label.OUTCOME,),
)
CAPPED_BILLS = Metric(
    name="penstock_capped_bills",
    kind=Kind.COUNTER,
    help="Requests whose worker told more tokens than they could take; billed is the most that they could.",
    labels=(Label.API,),
)
