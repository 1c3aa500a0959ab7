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
from penstock.worker.artifacts.node import Copy, Watch
from penstock.worker.engines.plan import LaunchPlan
from penstock.worker.engines.process import Files, Launcher


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    worker: WorkerId
    version: VersionId
    url: str
    zone: str
    status_host: str
    files: Files
    device: str = "cpu"
    """What kind of device its engine computes on."""
    key_mark: str = ""
    status_port: int = 0
    heartbeat_s: float = 1.0
    is_pooled: bool = False
    """Whether engines of its machine share a memory that is too small for all of them."""
    drain_grace_s: float = 30.0
    may_be_taken: bool = False
    """Whether the machine is one that its owner takes back at short notice."""
    linger_s: float = 1.0
    """How long after it reported to be draining the gate stays open: until no gateway's table has us any more."""
    pace: RunIntervals = field(default_factory=RunIntervals)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Ports of the agent. ``obtain`` blocks; ``plan`` returns a copy's launch plan."""

    obtain: Callable[[VersionId, Watch], Copy]
    plan: Callable[[Copy], LaunchPlan]
    launcher: Launcher
    client: GateClient
    controller: Callable[[], str]
    tls: Callable[[], ssl.SSLContext] | None
    """What a connection to the controller is made with; None: in the clear."""
    certificate: Callable[[], Own] | None
    """Who the worker is by its certificate, and until when; None without one."""
    bearer: str
    memory: PhaseMemory
    clock: Clock
    chance: random.Random
    shown: Callable[[int], None]
    """Told the port at which health and metrics are shown."""
