"""Metrics of promises by service tier, tenant and zone; part of the catalogue in ``names.py``."""

from penstock.telemetry.definitions import ITL_S, LATENCY_S, TENANT_ITL_S, TENANT_TTFT_S, Label, counter, histogram

SERVICE_TIER_REQUESTS = counter(
    "penstock_service_tier_requests",
    "Finished requests that were routed to a version, by service tier and outcome.",
    (Label.SERVICE_TIER, Label.OUTCOME),
)
SERVICE_TIER_DOLLARS = counter(
    "penstock_service_tier_billed_dollars",
    "Cost of settled requests by service tier, its price factor included, in US dollars.",
    (Label.SERVICE_TIER,),
)
TTFT_SECONDS = histogram(
    "penstock_ttft_seconds",
    "Time from the arrival of the whole request to the first token, of streams.",
    (Label.MODEL, Label.TIER),
    buckets=LATENCY_S,
)
VISIBLE_TTFT_SECONDS = histogram(
    "penstock_visible_ttft_seconds",
    "Time to the first token that leaves the gateway, of streams: penstock_ttft_seconds and what filters held back.",
    (Label.MODEL, Label.TIER),
    buckets=LATENCY_S,
)
ITL_SECONDS = histogram(
    "penstock_itl_seconds",
    "Time between tokens of a stream, as the gateway sees them.",
    (Label.MODEL, Label.TIER),
    buckets=ITL_S,
)
TIER_REQUESTS = counter(
    "penstock_tier_requests",
    "Finished requests by tier and outcome; each outcome is exported from the start.",
    (Label.TIER, Label.OUTCOME),
)
TIER_STREAMS = counter(
    "penstock_tier_streams",
    "Started streams by tier and outcome; each outcome is exported from the start.",
    (Label.TIER, Label.OUTCOME),
)
TENANT_TTFT_SECONDS = histogram(
    "penstock_tenant_ttft_seconds",
    "penstock_ttft_seconds by tenant: the busiest by name, the rest as other.",
    (Label.TENANT,),
    buckets=TENANT_TTFT_S,
)
TENANT_ITL_SECONDS = histogram(
    "penstock_tenant_itl_seconds",
    "penstock_itl_seconds by tenant: the busiest by name, the rest as other.",
    (Label.TENANT,),
    buckets=TENANT_ITL_S,
)
ZONE_ITL_SECONDS = histogram(
    "penstock_zone_itl_seconds",
    "penstock_itl_seconds by the zone of the worker that answers; absent if workers name no zone.",
    (Label.ZONE,),
    buckets=ITL_S,
)
ZONE_TTFT_SECONDS = histogram(
    "penstock_zone_ttft_seconds",
    "penstock_ttft_seconds by the zone of the worker that answers; absent if workers name no zone.",
    (Label.ZONE,),
    buckets=LATENCY_S,
)
