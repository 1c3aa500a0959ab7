"""Metrics of adapters on workers; part of the catalogue in ``names.py``."""

from penstock.telemetry.definitions import LATENCY_S, Label, counter, gauge, histogram

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
