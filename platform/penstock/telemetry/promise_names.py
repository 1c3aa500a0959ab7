"""Metrics of promises by service tier, tenant and zone; part of the catalogue in ``names.py``."""

from penstock.telemetry.definitions import ITL_S, LATENCY_S, TENANT_ITL_S, TENANT_TTFT_S, Label, Metric, MetricKind

SERVICE_TIER_REQUESTS = Metric(
    name="penstock_service_tier_requests",
    kind=MetricKind.COUNTER,
    help="Finished requests that were routed to a version, by service tier and outcome.",
    labels=(Label.SERVICE_TIER, Label.OUTCOME),
)
SERVICE_TIER_DOLLARS = Metric(
    name="penstock_service_tier_billed_dollars",
    kind=MetricKind.COUNTER,
    help="Cost of settled requests by service tier, its price factor included, in US dollars.",
    labels=(Label.SERVICE_TIER,),
)
TTFT_SECONDS = Metric(
    name="penstock_ttft_seconds",
    kind=MetricKind.HISTOGRAM,
    help="Time from the arrival of the whole request to the first token, of streams.",
    labels=(Label.MODEL, Label.TIER),
    buckets=LATENCY_S,
)
ITL_SECONDS = Metric(
    name="penstock_itl_seconds",
    kind=MetricKind.HISTOGRAM,
    help="Time between tokens of a stream, as the gateway sees them.",
    labels=(Label.MODEL, Label.TIER),
    buckets=ITL_S,
)
TIER_REQUESTS = Metric(
    name="penstock_tier_requests",
    kind=MetricKind.COUNTER,
    help="Finished requests by tier and outcome; each outcome is exported from the start.",
    labels=(Label.TIER, Label.OUTCOME),
)
TIER_STREAMS = Metric(
    name="penstock_tier_streams",
    kind=MetricKind.COUNTER,
    help="Started streams by tier and outcome; each outcome is exported from the start.",
    labels=(Label.TIER, Label.OUTCOME),
)
TENANT_TTFT_SECONDS = Metric(
    name="penstock_tenant_ttft_seconds",
    kind=MetricKind.HISTOGRAM,
    help="penstock_ttft_seconds by tenant: the busiest by name, the rest as other.",
    labels=(Label.TENANT,),
    buckets=TENANT_TTFT_S,
)
TENANT_ITL_SECONDS = Metric(
    name="penstock_tenant_itl_seconds",
    kind=MetricKind.HISTOGRAM,
    help="penstock_itl_seconds by tenant: the busiest by name, the rest as other.",
    labels=(Label.TENANT,),
    buckets=TENANT_ITL_S,
)
ZONE_ITL_SECONDS = Metric(
    name="penstock_zone_itl_seconds",
    kind=MetricKind.HISTOGRAM,
    help="penstock_itl_seconds by the zone of the worker that answers; absent if workers name no zone.",
    labels=(Label.ZONE,),
    buckets=ITL_S,
)
ZONE_TTFT_SECONDS = Metric(
    name="penstock_zone_ttft_seconds",
    kind=MetricKind.HISTOGRAM,
    help="penstock_ttft_seconds by the zone of the worker that answers; absent if workers name no zone.",
    labels=(Label.ZONE,),
    buckets=LATENCY_S,
)
