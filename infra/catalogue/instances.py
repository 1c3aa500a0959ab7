"""Instance types as facts: GPUs, memory, NVMe, EFA, zones, price. Read once from `instances.yaml`."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypedDict

import yaml

_FILE = Path(__file__).with_name("instances.yaml")
ANY_ZONE = "any"


class _Family(TypedDict):
    gpu: str
    gpu_memory_mib: int
    gpu_gb_per_s: int
    mig: bool
    zones: dict[str, list[str] | str]
    quota: str


class _File(TypedDict):
    sources: dict[str, str]
    families: dict[str, _Family]
    types: dict[str, list[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One type. `nvme_gb` and `efa` are 0 if the type has none; `usd_per_h` is on demand in us-east-1."""

    name: str
    family: str
    vcpu: int
    memory_gib: int
    gpu: str
    gpus: int
    gpu_memory_mib: int
    gpu_gb_per_s: int
    nvme_gb: int
    efa: int
    mig: bool
    quota: str
    usd_per_h: float

    def offered(self, region: str) -> tuple[str, ...] | None:
        """The zone ids of `region` that list the type; `None` if it is offered in every zone."""
        zones = _content()["families"][self.family]["zones"].get(region, [])
        return None if isinstance(zones, str) else tuple(zones)

    def in_zone(self, region: str, zone_id: str) -> bool:
        """Whether the zone lists the type."""
        offered = self.offered(region)
        return offered is None or zone_id in offered


@cache
def _content() -> _File:
    content: _File = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
    return content


def sources() -> dict[str, str]:
    """Where the figures come from and when they were read."""
    return dict(_content()["sources"])


@cache
def instances() -> dict[str, Instance]:
    """Every type of the catalogue by its name."""
    return {name: _instance(name, row) for name, row in _content()["types"].items()}


def _instance(name: str, row: list[float]) -> Instance:
    family_name = name.split(".", maxsplit=1)[0]
    family = _content()["families"][family_name]
    vcpu, memory, gpus, nvme, efa = (int(value) for value in row[:5])
    return Instance(
        name=name,
        family=family_name,
        vcpu=vcpu,
        memory_gib=memory,
        gpu=family["gpu"],
        gpus=gpus,
        gpu_memory_mib=family["gpu_memory_mib"],
        gpu_gb_per_s=family["gpu_gb_per_s"],
        nvme_gb=nvme,
        efa=efa,
        mig=family["mig"],
        quota=family["quota"],
        usd_per_h=row[5],
    )
