"""The seconds of a cold start, part by part: published ones until a start was measured, each with its source. Pure.

The published ones are of one start, the only one of which every part was found: another cloud, GPU and model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from penstock.domain.fleet.worker import WorkerState

PUBLISHED = "https://github.com/kaito-project/kaito/issues/2325"
"""vLLM 0.25.1 with Qwen3.8-27B (51.75 GiB) on one A100 80 GB, an image of 5.6 GB, one run: 966 s (2026-09-07)."""
MEASURED = "measured"
GIB = 1 << 30
PUBLISHED_BYTES_PER_S = 51.75 * GIB / 62
"""That start's weights over the seconds in which they came from the store and went to the GPU."""


class StartPart(StrEnum):
    NODE = "node"
    DRIVER = "driver"
    IMAGE = "image"
    WEIGHTS = "weights"
    ENGINE = "engine"
    GOLDEN = "golden prompts"


class Machine(StrEnum):
    NEW = "new"
    """None: one is launched."""
    WARM = "warm"
    """Stopped, with its image: a warm pool."""
    HELD = "held"
    """It runs, with its image: a floor, or another version's place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartBudget:
    part: StartPart
    seconds: float
    source: str


_PUBLISHED_S = {
    StartPart.NODE: 284.0,
    StartPart.DRIVER: 126.0,
    StartPart.IMAGE: 111.0,
    StartPart.ENGINE: 290.0,
    StartPart.GOLDEN: 93.0,
}
"""Node: created; driver: until its GPU can be asked for; image: preparation 7, pull 101, start 3; engine: framework 74,
before loading 21, memory, compilation and warm-up 195; golden prompts: its benchmark 92, readiness 1.
"""
_SPARED = {
    Machine.NEW: (),
    Machine.WARM: (StartPart.NODE, StartPart.IMAGE),
    Machine.HELD: (StartPart.NODE, StartPart.DRIVER, StartPart.IMAGE),
}
_PHASES = {
    StartPart.WEIGHTS: (WorkerState.FETCHING, WorkerState.VERIFYING),
    StartPart.ENGINE: (WorkerState.LOADING, WorkerState.COMPILING),
    StartPart.GOLDEN: (WorkerState.WARMING,),
}


def budget(machine: Machine, weight_bytes: int) -> tuple[PartBudget, ...]:
    seconds = {**_PUBLISHED_S, StartPart.WEIGHTS: weight_bytes / PUBLISHED_BYTES_PER_S}
    return tuple(
        PartBudget(part=part, seconds=0.0, source=f"a {machine} machine has it")
        if part in _SPARED[machine]
        else PartBudget(part=part, seconds=seconds[part], source=PUBLISHED)
        for part in StartPart
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Times that host and agent measured; 0 and missing phases were not measured."""

    machine_s: float = 0.0
    image_s: float = 0.0
    phases: Mapping[WorkerState, float]


def measured(published: Sequence[PartBudget], starts: Sequence[Start]) -> tuple[PartBudget, ...]:
    """Take the longest measurement of each part; the driver's seconds are within the node's."""
    longest: dict[StartPart, float] = {}
    for start in starts:
        for part, seconds in _parts_of(start).items():
            longest[part] = max(longest.get(part, 0.0), seconds)
    return tuple(
        PartBudget(part=one.part, seconds=longest[one.part], source=MEASURED) if one.part in longest else one
        for one in published
    )


def _parts_of(start: Start) -> dict[StartPart, float]:
    found = {StartPart.NODE: start.machine_s, StartPart.DRIVER: 0.0} if start.machine_s else {}
    found |= {StartPart.IMAGE: start.image_s} if start.image_s else {}
    for part, phases in _PHASES.items():
        if any(phase in start.phases for phase in phases):
            found[part] = sum(start.phases.get(phase, 0.0) for phase in phases)
    return found
