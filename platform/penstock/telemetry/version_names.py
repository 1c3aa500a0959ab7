"""Metrics of versions: adapters on workers, shares of an alias, copies; part of the catalogue in ``names.py``."""

from penstock.telemetry.definitions import LATENCY_S, Label, counter, gauge, histogram

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


ADAPTER_LOADS = counter(
    "penstock_adapter_loads",
    "Loads of adapters into an engine, by how they ended: ready, refused, gave_up.",
    (Label.VERSION, Label.OUTCOME),
)
ADAPTER_EVICTIONS = counter(
    "penstock_adapter_evictions", "Adapters evicted from an engine's memory for others.", (Label.VERSION,)
)
ADAPTER_LOAD_SECONDS = histogram(
    "penstock_adapter_load_seconds",
    "Time from an adapter's first waiting request to ready: fetched, verified, loaded, golden prompts answered.",
    (Label.VERSION,),
    buckets=LATENCY_S,
)
ADAPTERS_RESIDENT = gauge(
    "penstock_adapters_resident", "Adapters loaded in an engine that passed their golden prompts.", (Label.VERSION,)
)
ADAPTER_SWAPS = counter(
    "penstock_adapter_swaps", "Times that an adapter got one of the engine's LoRA slots.", (Label.VERSION,)
)
ADAPTERS_WAITING = gauge(
    "penstock_adapters_waiting",
    "Adapters that requests wait for in the worker's queue: to be loaded, or for a slot.",
    (Label.VERSION,),
)
