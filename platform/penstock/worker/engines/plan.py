"""An engine process's launch plan: a private file written by the agent, read by the engine.

A file, since other users can read arguments and environments, and it holds the ticket key.
"""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from penstock.domain.models.model import Runtime
from penstock.worker.gate_config import GateConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """Paths of the listener's certificate, key and authorities; read again when they change."""

    certificate: str
    key: str
    authorities: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchPlan:
    """``forkable``: a pre-imported parent may fork it (CPU only: a device context does not survive a fork)."""

    argv: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    gate: GateConfig
    forkable: bool = False
    runtime: Runtime = Runtime.VLLM
    tls: Certificate | None = None


def write(plan: LaunchPlan, path: Path) -> None:
    path.unlink(missing_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "w") as file:
        json.dump(asdict(plan), file)


def read(path: Path) -> LaunchPlan:
    raw = json.loads(path.read_text())
    return LaunchPlan(
        argv=tuple(raw["argv"]),
        environment=tuple((name, value) for name, value in raw["environment"]),
        gate=GateConfig(**raw["gate"]),
        forkable=raw["forkable"],
        runtime=Runtime(raw["runtime"]),
        tls=Certificate(**raw["tls"]) if raw["tls"] else None,
    )
