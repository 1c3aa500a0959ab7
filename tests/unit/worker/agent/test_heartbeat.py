"""Heartbeats to a controller that is there, away, or wants us gone; and what is remembered of a start."""

import asyncio
import io
import json
from pathlib import Path

import pytest

from penstock.domain.fleet.worker import PhaseTiming, WorkerOrder, WorkerReport, WorkerState
from penstock.domain.ids import VersionId, WorkerId
from penstock.domain.serving.report import Load
from penstock.telemetry import logs
from penstock.worker.agent.heartbeat import Heart
from penstock.worker.agent.log_tail import LogTail
from penstock.worker.agent.phases import PhaseMemory
from tests.support.patience import until
from tests.support.workers.process import Controller

pytestmark = pytest.mark.integration

REPORT = WorkerReport(
    worker=WorkerId("w"),
    version=VersionId("m@1"),
    state=WorkerState.READY,
    url="http://127.0.0.1:1",
    load=Load(running=2),
    phases=(PhaseTiming(phase=WorkerState.LOADING, seconds=1.5),),
)


def heart(
    url: list[str],
    orders: list[WorkerOrder],
    every_s: float = 60.0,
) -> Heart:
    return Heart(
        on_pins=lambda _: None,
        report=lambda: REPORT,
        controller=lambda: url[0],
        bearer="secret",
        on_order=orders.append,
        every_s=lambda: every_s,
    )


@pytest.mark.parametrize("name", ["pinned", "ahead"])
async def test_an_answer_may_name_versions_to_keep(name: str) -> None:
    """Adapters pinned, copies fetched ahead: silence, as of a controller on standby, is no word about them."""
    told: list[tuple[VersionId, ...]] = []
    with Controller() as controller:
        for versions in (["a@1"], None, []):
            setattr(controller, name, versions)
            made = heart([controller.url], [])
            setattr(made, {"pinned": "on_pins", "ahead": "on_ahead"}[name], told.append)
            await made.beat()
    assert told == [("a@1",), ()]


async def test_an_answer_may_bound_the_slots_of_batch_work() -> None:
    """Absent means no bound, and so does nonsense."""
    told: list[int | None] = []
    with Controller() as controller:
        for slots in (3, 0, None, "many"):
            controller.batch_slots = slots
            made = heart([controller.url], [])
            made.on_batch_slots = told.append
            await made.beat()
    assert told == [3, 0, None, None]


async def test_a_report_arrives_whole_and_under_the_key() -> None:
    """The controller gets every field of the report, with the bearer."""
    with Controller() as controller:
        assert await heart([controller.url], []).beat()
    (report,) = controller.reports
    assert (report["state"], report["load"]["running"]) == ("ready", 2)
    assert report["phases"] == [{"phase": "loading", "seconds": 1.5}]
    assert controller.bearers == {"Bearer secret"}


@pytest.mark.parametrize(("desired", "orders"), [*[(order, [order]) for order in WorkerOrder], ("dance", [])])
async def test_the_answer_says_whether_to_go_on(desired: str, orders: list[WorkerOrder]) -> None:
    """What the controller desires is heard; an order that is none of ours changes nothing."""
    asked: list[WorkerOrder] = []
    with Controller() as controller:
        controller.desired = desired
        await heart([controller.url], asked).beat()
    assert asked == orders


async def test_a_controller_that_comes_back_elsewhere_is_found() -> None:
    """Beats into nothing change nothing, and the next one goes where the controller is then."""
    url, orders = ["http://127.0.0.1:9"], list[WorkerOrder]()
    beating = heart(url, orders)
    assert not await beating.beat()
    url[0] = ""
    assert not await beating.beat()
    with Controller() as controller:
        url[0] = controller.url
        assert await beating.beat()
    assert orders == [WorkerOrder.SERVE]


@pytest.mark.parametrize("status", [401, 403])
async def test_a_controller_that_turns_a_worker_away_is_an_error_with_a_remedy(status: int) -> None:
    """A wrong key was an info like a controller that is away, and nothing at all right after a start without one."""
    stream = io.StringIO()
    logs.configure("worker", stream=stream)
    url = [""]
    beating = heart(url, [])
    assert not await beating.beat()
    with Controller() as controller:
        url[0], controller.status = controller.url, status
        assert [await beating.beat() for _ in range(3)] == [False, False, False]
        controller.status = 200
        assert await beating.beat()
    told = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(one["level"], one["event"]) for one in told] == [
        ("info", "controller_away"),
        ("error", "controller_refuses"),
        ("info", "controller_back"),
    ]
    assert f"status {status}" in told[1]["reason"]
    assert "PENSTOCK_WORKER_KEY_FILE" in told[1]["detail"]


async def test_a_change_is_told_at_once() -> None:
    """A change of state does not wait for the next regular beat."""
    with Controller() as controller:
        beating = heart([controller.url], [], every_s=60.0)
        task = asyncio.create_task(beating.run())
        await asyncio.to_thread(until, "a beat arrived", lambda: len(controller.reports) == 1, within_s=2)
        beating.beat_now()
        await asyncio.to_thread(until, "another one arrived", lambda: len(controller.reports) == 2, within_s=2)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_a_start_is_remembered_by_version(tmp_path: Path) -> None:
    """Seconds by phase come back for their version, nothing for another, nothing from a damaged file."""
    memory = PhaseMemory(tmp_path / "phases")
    memory.keep(VersionId("m@1"), {WorkerState.LOADING: 2.5})
    assert memory.recall(VersionId("m@1")) == {WorkerState.LOADING: 2.5}
    assert memory.recall(VersionId("m@2")) == {}
    (tmp_path / "phases/m@1.json").write_text('{"no_phase": 1}')
    assert memory.recall(VersionId("m@1")) == {}


def test_the_reason_of_a_failure_is_the_last_error_in_the_log(tmp_path: Path) -> None:
    """Of an engine's log the last line with an error and what follows it is told, and nothing from before its start."""
    log = tmp_path / "engine.log"
    log.write_text("OldError: before\n")
    tail = LogTail(log)
    with log.open("a") as file:
        file.write(
            "INFO Compiling a graph\nValueError: first\nValidationError: 1 error\n  max_model_len is too large\n"
        )
        file.write("RuntimeError: Engine core initialization failed. See root cause above.\n")
    assert tail.has_new((b"Compiling a graph",))
    assert not tail.has_new((b"Compiling a graph",))
    assert tail.reason() == "ValidationError: 1 error max_model_len is too large"
