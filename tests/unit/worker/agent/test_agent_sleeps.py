"""An agent that is told to sleep and to wake, with a process that stands for its engine and a gate that obeys.

On a CPU the process ends; on a GPU it stays, sleeps inside, and answers its golden prompts before its gate opens.
"""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import psutil
import pytest

from penstock.domain.clock import Clock, SystemClock
from penstock.domain.errors import EngineError
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import VersionId
from penstock.domain.models.model import GoldenPrompt, Manifest, Task
from penstock.domain.models.steps import StepModel
from penstock.domain.serving.report import Load
from penstock.worker.agent.agent import Agent
from penstock.worker.agent.gate_client import GateClient, GateState
from penstock.worker.artifacts.cache import Hold
from penstock.worker.artifacts.node import Copy, Watch
from penstock.worker.engines.plan import LaunchPlan
from penstock.worker.engines.process import EngineFiles, EngineProcess, Launcher
from penstock.worker.engines.translate import EngineNumbers
from tests.support.gateways.dispatch import until
from tests.support.samples import control_plane as things
from tests.support.workers.agents import VERSION, agent_of
from tests.support.workers.process import Controller

pytestmark = pytest.mark.integration


@dataclass
class StubGate:
    """What the agent asks of its gate, noted; ``inside`` requests run behind it."""

    asked: list[str] = field(default_factory=list)
    inside: int = 0
    wakes: bool = True
    clock: Clock = field(default_factory=SystemClock)

    async def is_healthy(self, timeout_s: float = 2.0) -> bool:
        return True

    async def numbers(self, timeout_s: float = 5.0) -> EngineNumbers:
        raise ConnectionError

    async def steps(self, learned: StepModel | None = None, timeout_s: float = 5.0) -> Mapping[str, object]:
        raise ConnectionError

    async def ask(self, path: str, body: Mapping[str, object], timeout_s: float) -> Mapping[str, object]:
        self.asked.append("golden" if "messages" in body or body.get("max_tokens") == GOLDEN_TOKENS else "shape")
        return {"choices": [{"text": "yes", "message": {"content": "yes"}}]}

    async def probe(self, task: Task, timeout_s: float) -> None:
        return

    async def rest(self, timeout_s: float = 5.0, *, on: bool) -> GateState:
        self.asked.append("rest" if on else "open")
        return GateState(load=Load(), in_flight=self.inside, draining=False, inside=self.inside)

    async def sleep(self, timeout_s: float = 60.0) -> None:
        self.asked.append("sleep")

    async def wake(self, timeout_s: float = 60.0) -> None:
        self.asked.append("wake")
        if not self.wakes:
            raise EngineError("the engine answered 500 to /penstock/wake")

    async def drain(self, timeout_s: float = 5.0) -> GateState:
        return await self.rest(on=True)


GOLDEN_TOKENS = 12


@dataclass
class StubLauncher:
    """Starts processes that do nothing."""

    started: list[int] = field(default_factory=list)

    @property
    def is_warm(self) -> bool:
        return True

    async def start(self, launch: LaunchPlan, files: EngineFiles) -> EngineProcess:
        command = [sys.executable, "-c", "import time; time.sleep(600)"]
        process = subprocess.Popen(command, start_new_session=True)  # noqa: ASYNC220  as the real ones do
        self.started.append(process.pid)
        return EngineProcess(process.pid, process.wait, -1)


@dataclass
class Site:
    """A running agent."""

    agent: Agent
    gate: StubGate
    launcher: StubLauncher
    controller: Controller
    obtained: list[str]

    def is_in(self, state: WorkerState, *, holds_memory: bool = True) -> bool:
        report = self.agent.report()
        return (report.state, report.holds_memory) == (state, holds_memory)

    @property
    def engines(self) -> list[int]:
        """Return the engines that live."""
        return [pid for pid in self.launcher.started if _lives(pid)]


def _lives(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def _manifest() -> Manifest:
    golden = GoldenPrompt(prompt="is it you?", expect="yes", max_tokens=GOLDEN_TOKENS)
    return replace(things.manifest(), golden=(golden,), chat_template="")


@asynccontextmanager
async def living(tmp_path: Path, device: str) -> AsyncIterator[Site]:
    gate, launcher, obtained = StubGate(), StubLauncher(), list[str]()

    def obtain(version: VersionId, watch: Watch) -> Copy:
        obtained.append(version)
        watch.phase(WorkerState.VERIFYING)
        return Copy(folder=tmp_path, manifest=_manifest(), hold=Hold(tmp_path / "use"))

    with Controller() as controller:
        client = cast("GateClient", _with_fields(gate))
        agent = agent_of(
            tmp_path,
            launcher=cast("Launcher", launcher),
            client=client,
            controller=lambda: controller.url,
            obtain=obtain,
            device=device,
        )
        running = asyncio.create_task(agent.run())
        site = Site(agent, gate, launcher, controller, obtained)
        try:
            await until(lambda: site.is_in(WorkerState.READY))
            yield site
        finally:
            agent._on_signal()
            assert await running == 0
            assert site.engines == []


def _with_fields(gate: StubGate) -> Any:  # noqa: ANN401  it stands for a client
    gate.version = VERSION  # type: ignore[attr-defined]
    return gate


@pytest.mark.parametrize(("device", "engines"), [("cpu", 0), ("cuda", 1)])
async def test_it_sleeps_and_comes_back_questioned(tmp_path: Path, device: str, engines: int) -> None:
    """On a CPU the process is gone and its files are verified anew, on a GPU it stays; both are questioned first."""
    async with living(tmp_path, device) as site:
        site.gate.asked.clear()
        site.controller.desired = "sleep"
        await until(lambda: site.is_in(WorkerState.SLEEPING, holds_memory=False))
        assert len(site.engines) == engines
        verified = len(site.obtained)
        site.controller.desired = "serve"
        await until(lambda: site.is_in(WorkerState.READY))
        on_a_gpu = ["rest", "sleep", "wake", "golden", "open"]
        assert site.gate.asked == (on_a_gpu if engines else ["rest", "golden"])
        assert (len(site.engines), len(site.obtained) - verified) == (1, 0 if engines else 1)
        await until(lambda: site.controller.states[-1] == "ready")
        assert [one for one in site.controller.states if one in ("sleeping", "ready")] == ["ready", "sleeping", "ready"]


async def test_it_waits_for_who_is_inside(tmp_path: Path) -> None:
    """The engine lives while anything runs, and an order to serve that comes before the end opens the gate again."""
    async with living(tmp_path, "cpu") as site:
        engine, site.gate.inside = site.engines, 1
        site.controller.desired = "sleep"
        await until(lambda: site.is_in(WorkerState.SLEEPING))
        await asyncio.sleep(0.3)
        assert (site.engines, site.is_in(WorkerState.SLEEPING)) == (engine, True)
        site.controller.desired = "serve"
        await until(lambda: site.is_in(WorkerState.READY))
        assert (site.engines, site.gate.asked[-1]) == (engine, "open")
        site.gate.inside = 0


async def test_a_gpu_that_does_not_wake_gets_a_new_engine(tmp_path: Path) -> None:
    """The failed wake is a failed start: counted, and begun anew from verified files."""
    async with living(tmp_path, "cuda") as site:
        site.controller.desired = "sleep"
        await until(lambda: site.is_in(WorkerState.SLEEPING, holds_memory=False))
        site.gate.wakes = False
        site.controller.desired = "serve"
        await until(lambda: len(site.launcher.started) == 2 and site.is_in(WorkerState.READY))
        assert (site.agent.report().restarts, len(site.obtained), len(site.engines)) == (1, 2, 1)
        assert "wake" in site.gate.asked
        await until(lambda: site.controller.states[-1] == "ready")


async def test_an_engine_that_dies_asleep_is_found_at_the_wake(tmp_path: Path) -> None:
    """Its worker starts another one, and nobody is answered by what is gone."""
    async with living(tmp_path, "cuda") as site:
        site.controller.desired = "sleep"
        await until(lambda: site.is_in(WorkerState.SLEEPING, holds_memory=False))
        psutil.Process(site.engines[0]).kill()
        site.controller.desired = "serve"
        await until(lambda: len(site.launcher.started) == 2 and site.is_in(WorkerState.READY))
        assert site.agent.report().restarts == 1
