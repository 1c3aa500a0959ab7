"""Metrics of rollouts and routing rules; part of the catalogue in ``names.py``."""

from penstock.telemetry.definitions import Label, Metric, MetricKind

FALLBACKS = Metric(
    name="penstock_gateway_fallbacks",
    kind=MetricKind.COUNTER,
    help="Requests served by an alias's fallback, by the model that served.",
    labels=(Label.MODEL,),
)
SHADOW_COPIES = Metric(
    name="penstock_gateway_shadow_copies",
    kind=MetricKind.COUNTER,
    help="Shadow copies and scorings that ended, by outcome; no other metric of requests counts them.",
    labels=(Label.OUTCOME,),
)
SHADOW_LEFT_OUT = Metric(
    name="penstock_gateway_shadow_left_out",
    kind=MetricKind.COUNTER,
    help="Answered requests not copied to a rollout's candidate or a compared rule's model, by reason.",
    labels=(Label.REASON,),
)
AUTO_CHOICES = Metric(
    name="penstock_gateway_auto_choices",
    kind=MetricKind.COUNTER,
    help="Requests for an auto alias by the rule that applied, as alias/rule, or alias/_none if none did.",
    labels=(Label.RULE,),
)
