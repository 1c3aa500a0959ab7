"""Metrics of adapters on workers; part of the catalogue in ``names.py``."""

from penstock.telemetry.definitions import LATENCY_S, Kind, Label, Metric

ADAPTER_LOADS = Metric(
    name="penstock_adapter_loads",
    kind=Kind.COUNTER,
    help="Loads of adapters into an engine, by how they ended: ready, refused, gave_up.",
    labels=(Label.VERSION, Label.OUTCOME),
)
ADAPTER_EVICTIONS = Metric(
    name="penstock_adapter_evictions",
    kind=Kind.COUNTER,
    help="Adapters that left an engine's memory for others.",
    labels=(Label.VERSION,),
)
ADAPTER_LOAD_SECONDS = Metric(
    name="penstock_adapter_load_seconds",
    kind=Kind.HISTOGRAM,
    help="From being wanted by the engine's door to ready: fetched, verified, loaded, golden prompts answered.",
    labels=(Label.VERSION,),
    buckets=LATENCY_S,
)
ADAPTERS_RESIDENT = Metric(
    name="penstock_adapters_resident",
    kind=Kind.GAUGE,
    help="Adapters in an engine's memory that were found right.",
    labels=(Label.VERSION,),
)
ADAPTER_SWAPS = Metric(
    name="penstock_adapter_swaps",
    kind=Kind.COUNTER,
    help="Slots of the engine's batch that adapters were given.",
    labels=(Label.VERSION,),
)
ADAPTERS_WAITING = Metric(
    name="penstock_adapters_waiting",
    kind=Kind.GAUGE,
    help="Adapters that requests wait for at the door: to be loaded, or for a slot.",
    labels=(Label.VERSION,),
)
