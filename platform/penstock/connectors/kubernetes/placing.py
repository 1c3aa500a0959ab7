"""Selects a version's device: the smallest that holds one of its workers and reads it in time, on any machine. Pure.

Trade-off: a small model never uses an expensive GPU while its own kind is full; its queue shows the wait.
"""

from dataclasses import dataclass

from penstock.capacity.memory_plan import CONTEXT_READ
from penstock.connectors.kubernetes.pools import Device, Size
from penstock.domain.fleet.versions import Served

USABLE_RATIO = 0.9
"""The part of a device's memory that the engine uses by default; the rest is for driver and other processes."""
FULL_STEP_S = 0.1
"""ITL objective of the chat tier; a full worker's step reads all that it holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    served: Served
    device: Device
    size: Size

    @property
    def is_slow(self) -> bool:
        """True if a full worker misses the objective; False for an unknown bandwidth."""
        read = self.served.held_bytes / self.size.gpus / CONTEXT_READ
        return read > FULL_STEP_S * self.device.bytes_per_s > 0

    @property
    def dollars_per_hour(self) -> float | None:
        price = self.device.dollars_per_hour
        return None if price is None else price * self.size.gpus


def place(served: Served, devices: tuple[Device, ...]) -> Placed | None:
    fitting = [
        Placed(served=served, device=device, size=size)
        for device in devices
        for size in device.sizes
        if size.gpus == served.gpus and size.most > 0 and served.held_bytes <= _usable(device, served.gpus)
    ]
    return min(fitting, key=lambda one: (one.is_slow, one.device.bytes, one.device.dollars_per_hour or 0), default=None)


def why_nowhere(served: Served, devices: tuple[Device, ...]) -> str:
    sizes = sorted({size.gpus for device in devices for size in device.sizes})
    if served.gpus not in sizes:
        counts = ", ".join(map(str, sizes))
        return f"{served.version} needs {served.gpus} GPUs in one node; pools offer {counts}: push it with one of these"
    most = max(_usable(device, served.gpus) for device in devices)
    needs, holds = served.held_bytes / 2**30, most / 2**30
    return f"{served.version} needs {needs:.0f} GiB on {served.gpus} GPUs, at most {holds:.0f} are there: use more GPUs"


def _usable(device: Device, gpus: int) -> float:
    return device.bytes * gpus * USABLE_RATIO
