"""The first curve of an agent: its own loop and clocks, an engine in a process of its own, and a controller."""

import asyncio
import json
import socket
import subprocess
import sys
import urllib.request
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

import pytest

from penstock.domain.clock import SystemClock
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import VersionId
from penstock.domain.models.curves import Origin
from penstock.domain.models.model import GoldenPrompt
from penstock.worker.agent.gate_client import GateClient
from penstock.worker.artifacts.cache import Hold
from penstock.worker.artifacts.node import Copy, Watch
from penstock.worker.engines.plan import LaunchPlan
from penstock.worker.engines.process import EngineFiles, EngineProcess, Launcher
from tests.support import tree
from tests.support.engines.logged import seconds
from tests.support.gateways.dispatch import until
from tests.support.samples import control_plane as things
from tests.support.workers.agents import VERSION, agent_of
from tests.support.workers.process import Controller

pytestmark = pytest.mark.integration
MANIFEST = replace(
    things.manifest(), golden=(GoldenPrompt(prompt="is it you?", expect="yes", max_tokens=12),), chat_template=""
)


class Starting:
    """The launcher's place."""

    is_warm = True

    def __init__(self, port: int) -> None:
        self._port = port

    async def start(self, launch: LaunchPlan, files: EngineFiles) -> EngineProcess:
        del launch
        files.log.touch()
        command = [sys.executable, "-m", "tests.support.engines.logged", str(self._port)]
        process = subprocess.Popen(command, cwd=tree.ROOT, start_new_session=True)  # noqa: ASYNC220  as the real ones do
        return EngineProcess(process.pid, process.wait, -1)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def learned(url: str) -> list[dict[str, Any]]:
    with urllib.request.urlopen(f"{url}/learned", timeout=5.0) as answer:
        return cast("list[dict[str, Any]]", json.load(answer))


async def test_the_first_fit_reaches_gate_and_controller_and_the_agent_goes_on(tmp_path: Path) -> None:
    """No clock, thread or field of the way from a log to a heartbeat ends the agent."""

    def obtain(_: VersionId, watch: Watch) -> Copy:
        watch.phase(WorkerState.VERIFYING)
        return Copy(folder=tmp_path, manifest=MANIFEST, hold=Hold(tmp_path / "use"))

    port = free_port()
    url = f"http://127.0.0.1:{port}"
    client = GateClient(url=url, version=VERSION, ticket_key=b"k" * 32, clock=SystemClock())
    with Controller() as controller:
        agent = agent_of(
            tmp_path,
            launcher=cast("Launcher", Starting(port)),
            client=client,
            controller=lambda: controller.url,
            obtain=obtain,
        )
        running = asyncio.create_task(agent.run())
        try:
            await until(lambda: running.done() or agent.report().curve is not None)
            curve = agent.report().curve
            assert curve is not None
            assert (curve.origin, curve.hardware) == (Origin.SERVED, "cpu x1")
            assert curve.model.seconds(decoding=8, context=800) == pytest.approx(seconds(8, 0, 800), rel=0.05)
            await until(lambda: bool(controller.reports[-1].get("curve")))
            assert await asyncio.to_thread(learned, url) == [asdict(curve.model)]
            assert agent.report().state is WorkerState.READY
        finally:
            agent._on_signal()
            assert await running == 0
