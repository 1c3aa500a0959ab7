"""A whole agent in this process: its loops, heartbeat and pages are real, its engine and gate are the test's."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import cast

from penstock.domain.clock import SystemClock
from penstock.domain.ids import VersionId, WorkerId
from penstock.worker.agent.agent import Agent
from penstock.worker.agent.gate_client import GateClient
from penstock.worker.agent.phases import PhaseMemory
from penstock.worker.agent.ports import AgentConfig, Ports
from penstock.worker.agent.running import RunIntervals
from penstock.worker.artifacts.node import Copy, Watch
from penstock.worker.engines.plan import LaunchPlan
from penstock.worker.engines.process import EngineFiles, Launcher

VERSION = VersionId("m@1")


def agent_of(
    folder: Path,
    *,
    launcher: Launcher,
    client: GateClient,
    controller: Callable[[], str],
    obtain: Callable[[VersionId, Watch], Copy],
    device: str = "cpu",
) -> Agent:
    """Return an agent whose intervals are short."""
    return Agent(
        AgentConfig(
            worker=WorkerId("w"),
            version=VERSION,
            url="http://127.0.0.1:1",
            zone="",
            status_host="127.0.0.1",
            files=EngineFiles(plan=folder / "plan", log=folder / "log", pid=folder / "pid"),
            device=device,
            heartbeat_s=0.05,
            linger_s=0.0,
            pace=RunIntervals(look_every_s=0.05),
        ),
        Ports(
            obtain=obtain,
            ahead=lambda version: obtain(version, Watch()).hold,
            plan=lambda _: cast("LaunchPlan", None),
            launcher=launcher,
            client=client,
            controller=controller,
            tls=None,
            certificate=None,
            bearer="b",
            memory=PhaseMemory(folder / "phases"),
            clock=SystemClock(),
            chance=random.Random(1),
            shown=lambda _: None,
        ),
    )
