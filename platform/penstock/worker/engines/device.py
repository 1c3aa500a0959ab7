"""Choice of an engine's device. A worker that was assigned a GPU and can't see it must not serve on the CPU instead: it
would be a hundred times slower without a visible reason.
"""

import re
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path

from penstock.domain.command_error import CommandError
from penstock.domain.errors import EngineError

_GPU = re.compile(r"nvidia\d+")
_NONE = frozenset({"", "void", "none"})
"""The value of ``NVIDIA_VISIBLE_DEVICES`` in a container without a GPU."""


class Device(StrEnum):
    AUTO = "auto"
    CUDA = "cuda"
    CPU = "cpu"


def names(folder: Path = Path("/dev")) -> list[str]:
    """Return a container's GPUs by their numbers, a MIG slice by the number of its GPU."""
    return [path.name for path in folder.glob("nvidia*")]


def has_gpu(devices: Iterable[str]) -> bool:
    return any(_GPU.fullmatch(name) for name in devices)


def choose(wanted: Device, devices: Iterable[str], given: str) -> Device:
    """Raises ``CommandError``. ``given`` are the devices assigned to the container."""
    if wanted is Device.CPU:
        return Device.CPU
    if has_gpu(devices):
        return Device.CUDA
    if wanted is Device.CUDA or given.strip().lower() not in _NONE:
        why = "PENSTOCK_DEVICE is cuda" if wanted is Device.CUDA else f"NVIDIA_VISIBLE_DEVICES is {given}"
        raise CommandError(
            f"This worker sees no GPU (no /dev/nvidia0, 1, …), and {why}.",
            do="Give the container its device (runtime class, device plugin, driver), or set PENSTOCK_DEVICE=cpu.",
        )
    return Device.CPU


def check_ranks(ranks: int, chosen: str, devices: Iterable[str]) -> None:
    gpus = sum(_GPU.fullmatch(name) is not None for name in devices) if chosen == Device.CUDA else 0
    if ranks > 1 and gpus < ranks:
        raise EngineError(f"this version runs on {ranks} GPUs, and this worker sees {gpus}: give its container so many")
