"""How much of a node one replica may ask for: its share of the pool's smallest machine, less what the node keeps.

Trade-off: sized for the smallest type, a replica leaves memory unused on larger ones; in return one pod
template fits every machine that spot may give.
"""

from dataclasses import dataclass

from infra.catalogue.instances import instances
from infra.components.labels import mig_resource
from infra.config.pools import Model, Pool

CPU_RATIO = 0.80
MEMORY_RATIO = 0.70
MAX_CPU = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What one pod asks for. `devices` are extended resources by name."""

    cpu: str
    memory: str
    devices: dict[str, str]


def request(model: Model, pool: Pool) -> Request:
    """The request of one pod of the model on that pool."""
    smallest = min((instances()[name] for name in pool.instance_types), key=lambda item: item.memory_gib)
    if model.mig_profile:
        share = 1 / (smallest.gpus * pool.mig[model.mig_profile])
        devices = {mig_resource(model.mig_profile): "1"}
    else:
        share = model.gpus / smallest.gpus
        devices = {"nvidia.com/gpu": str(model.gpus)}
    if pool.efa:
        devices["vpc.amazonaws.com/efa"] = str(smallest.efa)
    cpu = min(int(smallest.vcpu * share * CPU_RATIO), MAX_CPU)
    return Request(cpu=str(cpu), memory=f"{int(smallest.memory_gib * share * MEMORY_RATIO)}Gi", devices=devices)
