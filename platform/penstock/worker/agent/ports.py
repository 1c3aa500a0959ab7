"""A worker's identity and the ports of its agent, put together by the composition root."""

import random
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.domain.clock import Clock
from penstock.domain.ids import VersionId, WorkerId
from penstock.tls.files import Own
from penstock.worker.agent.gate_client import GateClient
from penstock.worker.agent.phases import PhaseMemory
from penstock.worker.agent.running import RunIntervals
from penstock.worker.artifacts.cache import Hold
from penstock.worker.artifacts.node import Copy, Watch
from penstock.worker.engines.plan import LaunchPlan
from penstock.worker.engines.process import EngineFiles, Launcher


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    worker: WorkerId
    version: VersionId
    url: str
    zone: str
    status_host: str
    files: EngineFiles
    pools: tuple[str, ...] = ()
    device: str = "cpu"
    key_mark: str = ""
    status_port: int = 0
    heartbeat_s: float = 1.0
    is_pooled: bool = False
    """Whether the engines of the machine share a memory too small for all of them."""
    drain_grace_s: float = 30.0
    may_be_taken: bool = False
    """Whether the machine may be reclaimed at short notice, like a spot instance."""
    linger_s: float = 1.0
    """Seconds for which the gate stays open after draining was reported, until no gateway's table has the worker."""
    pace: RunIntervals = field(default_factory=RunIntervals)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """``obtain`` and ``ahead`` block; ``plan`` returns the launch plan of a verified copy."""

    obtain: Callable[[VersionId, Watch], Copy]
    ahead: Callable[[VersionId], Hold]
    """Return a hold on a cached version, fetched if there is room."""
    plan: Callable[[Copy], LaunchPlan]
    launcher: Launcher
    client: GateClient
    controller: Callable[[], str]
    tls: Callable[[], ssl.SSLContext] | None
    certificate: Callable[[], Own] | None
    """The worker's identity and expiry by its certificate; None without one."""
    bearer: str
    memory: PhaseMemory
    clock: Clock
    chance: random.Random
    shown: Callable[[int], None]
