"""Devices: what workers on them ask of a node, how many the pools hold, and what memory one device has.

A worker's share is that of the smallest machine, less what the node keeps.
Trade-off: sized for the smallest type, a worker leaves memory unused on larger ones; in return one pod
template fits every machine that spot may give.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from infra.catalogue.instances import Instance, instances
from infra.catalogue.mig import MEMORY_SLICES, PROFILES
from infra.components.labels import mig_resource
from infra.config.kinds import Scaler
from infra.config.pools import Pool
from infra.kube import pods

CPU_RATIO = 0.80
MEMORY_RATIO = 0.70
MAX_CPU = 64
DEGREES = (1, 2, 4, 8)
"""Over how many GPUs of one node a version may be spread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A whole GPU or a slice, with all pools whose machines have it; `profile` is empty for whole GPUs."""

    name: str
    profile: str
    pools: tuple[Pool, ...]

    @property
    def gpu(self) -> str:
        """The GPU, as the label of its nodes has it."""
        return self._types[0].gpu

    @property
    def sizes(self) -> tuple[int, ...]:
        """The numbers of GPUs that a worker may have here; slices have no link between them."""
        most = 1 if self.profile else max(map(_gpus, self.pools))
        return tuple(count for count in DEGREES if count <= most)

    @property
    def bytes(self) -> int:
        """The memory of one GPU, or of one slice."""
        first = self._types[0]
        return PROFILES[first.gpu][self.profile].memory_gib << 30 if self.profile else first.gpu_memory_mib << 20

    @property
    def bytes_per_s(self) -> int:
        """The memory bandwidth of one GPU, or of one slice, which has its part of the memory's slices."""
        first = self._types[0]
        part = PROFILES[first.gpu][self.profile].memory / MEMORY_SLICES if self.profile else 1
        return int(first.gpu_gb_per_s * 10**9 * part)

    @property
    def places(self) -> list[dict[str, object]]:
        """How many of it each node scaler may bring; groups come first: they are paid for, or start warm."""
        found = {scaler: sum(self._brought(one) for one in self.pools if one.scaler is scaler) for scaler in Scaler}
        return [{"scaler": scaler.value, "most": most} for scaler, most in found.items() if most]

    @property
    def usd_per_h(self) -> float:
        """The price of one GPU, or of one slice, on the cheapest machine of the first pool that has it."""
        pool = self.pools[0]
        slices = pool.mig[self.profile] if self.profile else 1
        return round(min(one.usd_per_h / (one.gpus * slices) for one in _types(pool)), 4)

    def most(self, gpus: int) -> int:
        """How many workers of so many GPUs its pools hold at their maximum sizes."""
        return sum(
            self._brought(pool) if self.profile else pool.max_size * (_gpus(pool) // gpus) for pool in self.pools
        )

    def resources(self, gpus: int) -> dict[str, object]:
        """The requests and limits of a worker's container."""
        shares = [
            (one, 1 / (one.gpus * pool.mig[self.profile]) if self.profile else gpus / one.gpus)
            for pool in self.pools
            for one in _types(pool)
            if self.profile or one.gpus >= gpus
        ]
        smallest, share = min(shares, key=lambda item: item[0].memory_gib * item[1])
        devices = {mig_resource(self.profile): "1"} if self.profile else {"nvidia.com/gpu": str(gpus)}
        interfaces = int(smallest.efa * share) if self.pools[0].efa else 0
        if interfaces:
            devices["vpc.amazonaws.com/efa"] = str(interfaces)
        cpu = min(int(smallest.vcpu * share * CPU_RATIO), MAX_CPU)
        memory = int(smallest.memory_gib * share * MEMORY_RATIO)
        return pods.resources(cpu=str(cpu), memory=f"{memory}Gi", **devices)

    def _brought(self, pool: Pool) -> int:
        return pool.max_size * _gpus(pool) * (pool.mig[self.profile] if self.profile else 1)

    @property
    def _types(self) -> list[Instance]:
        return [one for pool in self.pools for one in _types(pool)]


def devices(pools: tuple[Pool, ...]) -> Iterator[Device]:
    """The devices of a region, in the order in which its pools first have them."""
    found: dict[tuple[str, str], list[Pool]] = {}
    for pool in pools:
        for profile in (sorted(pool.mig) or [""]) if pool.gpu else []:
            name = "-".join(
                [
                    _types(pool)[0].gpu.lower(),
                    *([profile.replace(".", "-")] if profile else []),
                    *(["efa"] if pool.efa else []),
                ]
            )
            found.setdefault((name, profile), []).append(pool)
    for (name, profile), having in found.items():
        yield Device(name=name, profile=profile, pools=tuple(having))


def _types(pool: Pool) -> list[Instance]:
    return [instances()[name] for name in pool.instance_types]


def _gpus(pool: Pool) -> int:
    return min(one.gpus for one in _types(pool))
