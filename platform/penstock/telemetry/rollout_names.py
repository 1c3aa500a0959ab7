"""Metrics of rollouts and routing rules; part of the catalogue in ``names.py``."""

from penstock.telemetry.definitions import Label, counter

FALLBACKS = counter(
    "penstock_gateway_fallbacks", "Requests served by an alias's fallback, by the model that served.", (Label.MODEL,)
)
SHADOW_COPIES = counter(
    "penstock_gateway_shadow_copies",
    "Shadow copies and scorings that ended, by outcome; no other metric of requests counts them.",
    (Label.OUTCOME,),
)
SHADOW_LEFT_OUT = counter(
    "penstock_gateway_shadow_left_out",
    "Answered requests not copied to a rollout's candidate or a compared rule's model, by reason.",
    (Label.REASON,),
)
AUTO_CHOICES = counter(
    "penstock_gateway_auto_choices",
    "Requests for an auto alias by the rule that applied, as alias/rule, or alias/_none if none did.",
    (Label.RULE,),
)
