"""What workers of so many GPUs ask of a node, how many a pool holds, and what memory one device has.

A worker's share is that of the pool's smallest machine, less what the node keeps.
Trade-off: sized for the smallest type, a worker leaves memory unused on larger ones; in return one pod
template fits every machine that spot may give.
"""

from infra.catalogue.instances import Instance, instances
from infra.catalogue.mig import PROFILES
from infra.components.labels import mig_resource
from infra.config.pools import Pool
from infra.kube import pods

CPU_RATIO = 0.80
MEMORY_RATIO = 0.70
MAX_CPU = 64
DEGREES = (1, 2, 4, 8)
"""Over how many GPUs of one node a version may be spread."""


def sizes(pool: Pool) -> tuple[int, ...]:
    """The numbers of GPUs that a worker may have here; slices have no link between them."""
    return (1,) if pool.mig else tuple(count for count in DEGREES if count <= _gpus(pool))


def workers_held(pool: Pool, gpus: int, profile: str = "") -> int:
    """How many such workers the pool holds at its maximum size."""
    return pool.max_size * (_gpus(pool) * pool.mig[profile] if profile else _gpus(pool) // gpus)


def device_bytes(pool: Pool, profile: str = "") -> int:
    """The memory of one GPU, or of one slice."""
    types = _types(pool)
    gib = PROFILES[types[0].gpu][profile].memory_gib if profile else min(one.gpu_memory_gib for one in types)
    return gib << 30


def resources(pool: Pool, gpus: int, profile: str = "") -> dict[str, object]:
    """The requests and limits of a worker's container."""
    smallest = min(_types(pool), key=lambda item: item.memory_gib)
    share = 1 / (smallest.gpus * pool.mig[profile]) if profile else gpus / smallest.gpus
    devices = {mig_resource(profile): "1"} if profile else {"nvidia.com/gpu": str(gpus)}
    interfaces = int(smallest.efa * share) if pool.efa else 0
    if interfaces:
        devices["vpc.amazonaws.com/efa"] = str(interfaces)
    cpu = min(int(smallest.vcpu * share * CPU_RATIO), MAX_CPU)
    memory = int(smallest.memory_gib * share * MEMORY_RATIO)
    return pods.resources(cpu=str(cpu), memory=f"{memory}Gi", **devices)


def _types(pool: Pool) -> list[Instance]:
    return [instances()[name] for name in pool.instance_types]


def _gpus(pool: Pool) -> int:
    return min(one.gpus for one in _types(pool))
