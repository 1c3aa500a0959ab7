"""What one engine process is to run, as a private file that the agent writes and the engine reads.

A file, because arguments and environments of processes can be read by others, and it holds the ticket key.
"""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from penstock.domain.models.model import Runtime
from penstock.worker.gate_config import GateConfig, QueueOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """Where the engine's listener has its certificate, key and authorities from; read again when they change."""

    certificate: str
    key: str
    authorities: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchPlan:
    """The engine's arguments, its environment beyond the inherited one, and its gate's settings.

    ``forkable`` tells whether a pre-imported parent may fork it (CPU only: a device context does not survive a fork).
    """

    argv: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    gate: GateConfig
    forkable: bool = False
    runtime: Runtime = Runtime.VLLM
    tls: Certificate | None = None


def write(plan: LaunchPlan, path: Path) -> None:
    """Write the plan, readable by its owner only."""
    path.unlink(missing_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "w") as file:
        json.dump(asdict(plan), file)


def read(path: Path) -> LaunchPlan:
    """Return the plan in this file."""
    raw = json.loads(path.read_text())
    return LaunchPlan(
        argv=tuple(raw["argv"]),
        environment=tuple((name, value) for name, value in raw["environment"]),
        gate=GateConfig(**{**raw["gate"], "door_order": QueueOrder(raw["gate"]["door_order"])}),
        forkable=raw["forkable"],
        runtime=Runtime(raw["runtime"]),
        tls=Certificate(**raw["tls"]) if raw["tls"] else None,
    )
