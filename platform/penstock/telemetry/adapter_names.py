"""Metrics of adapters on workers; part of the catalogue in ``names.py``."""

from penstock.telemetry.definitions import LATENCY_S, Label, Metric, MetricKind

ADAPTER_LOADS = Metric(
    name="penstock_adapter_loads",
    kind=MetricKind.COUNTER,
    help="Loads of adapters into an engine, by how they ended: ready, refused, gave_up.",
    labels=(Label.VERSION, Label.OUTCOME),
)
ADAPTER_EVICTIONS = Metric(
    name="penstock_adapter_evictions",
    kind=MetricKind.COUNTER,
    help="Adapters evicted from an engine's memory for others.",
    labels=(Label.VERSION,),
)
ADAPTER_LOAD_SECONDS = Metric(
    name="penstock_adapter_load_seconds",
    kind=MetricKind.HISTOGRAM,
    help="Time from an adapter's first waiting request to ready: fetched, verified, loaded, golden prompts answered.",
    labels=(Label.VERSION,),
    buckets=LATENCY_S,
)
ADAPTERS_RESIDENT = Metric(
    name="penstock_adapters_resident",
    kind=MetricKind.GAUGE,
    help="Adapters loaded in an engine that passed their golden prompts.",
    labels=(Label.VERSION,),
)
ADAPTER_SWAPS = Metric(
    name="penstock_adapter_swaps",
    kind=MetricKind.COUNTER,
    help="Times that an adapter got one of the engine's LoRA slots.",
    labels=(Label.VERSION,),
)
ADAPTERS_WAITING = Metric(
    name="penstock_adapters_waiting",
    kind=MetricKind.GAUGE,
    help="Adapters that requests wait for in the worker's queue: to be loaded, or for a slot.",
    labels=(Label.VERSION,),
)
