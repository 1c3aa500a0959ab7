"""The engines that a machine has room for beside the awake ones: by cores and by memory. Pure.

Trade-off: bytes are computed from manifests, and each process counts as the larger of two measured ones.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from penstock.domain.fleet.versions import Running
from penstock.domain.ids import VersionId, WorkerId

PROCESS_BYTES = 1_400_000_000
"""Memory that one more worker adds beside weights and cache: its agent, and an engine with imports of its own. Measured
with SmolLM2 in vLLM 0.32.0 on a CPU, as proportional set size: 1.35 GB; 0.64 GB if engines are forked from one parent.
"""
USED_RATIO = 0.9
"""Part of the machine's memory that engines may fill; the rest is the system's and the platform's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A host's cores, of which an engine takes one, and its bytes of memory."""

    cores: int
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineRoom:
    """The machine's free cores and bytes. ``sizes`` are bytes of a worker by version."""

    engines: int
    free_bytes: int
    sizes: Mapping[VersionId, int]

    def more(self, version: VersionId) -> int:
        return max(0, min(self.engines, self.free_bytes // self._needs(version)))

    def less(self, version: VersionId, workers: int) -> "MachineRoom":
        return replace(
            self, engines=self.engines - workers, free_bytes=self.free_bytes - workers * self._needs(version)
        )

    def _needs(self, version: VersionId) -> int:
        return self.sizes.get(version, 0) + PROCESS_BYTES


def room_of(
    machine: Machine, sizes: Mapping[VersionId, int], running: Iterable[Running], asleep: Collection[WorkerId]
) -> MachineRoom:
    """Return the room beside the workers with a process, except sleeping ones."""
    room = MachineRoom(engines=machine.cores, free_bytes=int(machine.memory_bytes * USED_RATIO), sizes=sizes)
    for one in running:
        if one.worker not in asleep:
            room = room.less(one.version, 1)
    return room
