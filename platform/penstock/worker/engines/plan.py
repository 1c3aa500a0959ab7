"""An engine process's launch plan: a private file written by the agent, read by the engine.

A file, because other users can read arguments and environments, and the plan holds the ticket key.

The gate's settings follow the kind of engine.
"""

import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from penstock.domain.models.model import Manifest, Runtime
from penstock.worker.engines.vllm import kept_adapters, long_prefill, shares_steps
from penstock.worker.gate_config import GateConfig

NO_STEPS = 1 << 30
"""Prompt tokens of a step, for an engine without steps."""


def for_engine(gate: GateConfig, manifest: Manifest) -> GateConfig:
    engine = manifest.engine
    sized = replace(gate, max_num_seqs=engine.max_num_seqs, block_size=engine.block_size)
    if manifest.runtime is Runtime.TORCH:
        return replace(sized, max_num_batched_tokens=NO_STEPS, time_shares=True)
    return replace(
        sized,
        max_num_batched_tokens=engine.max_num_batched_tokens,
        long_prefill_tokens=long_prefill(manifest),
        preempts=shares_steps(manifest),
        adapter_slots=engine.adapter_slots,
        adapters_kept=kept_adapters(engine.adapter_slots),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """Files are read again when they change."""

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
