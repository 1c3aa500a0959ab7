"""Each process is killed at each stage of a batch: every line comes once, is paid once, and its end is told.

``make jobs-matrix`` runs all cells and writes their table to ``build/jobs-matrix.md``; the gate has one.
"""

import os
import signal
import statistics
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path

import httpx
import pytest

from tests.support.jobs.history import faults
from tests.support.jobs.stages import OVER_S, Stage, Staged, patiently
from tests.support.patience import until
from tests.support.platforms.jobs import Jobs
from tests.support.webhooks.held_receiver import HeldReceiver, held_receiver

pytestmark = [pytest.mark.integration, pytest.mark.slow]
TABLE = Path(__file__).resolve().parents[3] / "build/jobs-matrix.md"
RUNNER, WITH_DISK = "runner", "runner and its disk"
VICTIMS = ("gateway", RUNNER, "worker", "controller", "postgres", WITH_DISK)
IN_THE_GATE = (RUNNER, Stage.FINALIZING)
RUNNERS = 2
LIVE = "select from runner where seen_at > extract(epoch from clock_timestamp()) - 2"
Row = tuple[str, str, int, int, int, float | None, float]


@pytest.fixture(scope="module")
def receiver(jobs: Jobs) -> Iterator[HeldReceiver]:
    """A receiver that is told of each batch's end."""
    with held_receiver() as server:
        asked = {"url": server.url, "events": ["batch.completed", "batch.cancelled", "batch.failed"]}
        with jobs.platform.http() as http:
            endpoint = http.post("/v1/webhooks", json=asked).raise_for_status().json()["id"]
        yield server
        with jobs.platform.http() as http:
            http.delete(f"/v1/webhooks/{endpoint}").raise_for_status()


@pytest.fixture(scope="module")
def table() -> Iterator[list[Row]]:
    rows: list[Row] = []
    yield rows
    TABLE.parent.mkdir(exist_ok=True)
    TABLE.write_text(markdown(rows))


def markdown(rows: list[Row]) -> str:
    head = "| killed | while | lines | lost | doubled | taken over, s | all over, s |\n|---|---|--:|--:|--:|--:|--:|\n"
    body = "".join(
        f"| {' | '.join(map(str, counts))} | {'' if took is None else f'{took:.1f}'} | {over:.1f} |\n"
        for *counts, took, over in rows
    )
    times = sorted(row[5] for row in rows if row[5] is not None) or [0.0]
    said = f"{len(rows)} cells, {sum(row[3] for row in rows)} lines lost, {sum(row[4] for row in rows)} doubled; "
    return f"{head}{body}\n{said}taken over after {statistics.median(times):.1f} s (p50), {times[-1]:.1f} s (most)\n"


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("victim", "stage"),
    [
        pytest.param(
            victim,
            stage,
            id=f"{victim}-{stage}".replace(" ", "_"),
            marks=() if (victim, stage) == IN_THE_GATE else pytest.mark.drill,
        )
        for stage, victim in product(Stage, VICTIMS)  # `penstock up` gives up on a process that ends again and again
    ],
)
def test_nothing_is_lost_doubled_or_stuck(
    jobs: Jobs, receiver: HeldReceiver, table: list[Row], victim: str, stage: Stage
) -> None:
    """One history checker over rows, files, bills and messages finds nothing; a lost runner's work goes on at once."""
    staged = Staged(jobs, stage, receiver, name=f"{victim.replace(' ', '-')}-{stage}-{time.time_ns()}")
    with staged.held():
        kill(jobs, victim, staged.runner)
        at = time.monotonic()
    taken_over_s = None
    if victim in (RUNNER, WITH_DISK) and staged.runner is not None:
        until("another runner has it", staged.is_taken_over, within_s=20, every_s=0.05)
        taken_over_s = time.monotonic() - at
    until(f"{staged.batch} is over", staged.is_over, within_s=OVER_S, every_s=0.2)
    over_s = time.monotonic() - at
    until(f"the end of {staged.batch} is told", staged.is_told, within_s=60, every_s=0.2)
    history = staged.history()
    table.append((victim, stage, len(history.custom_ids), history.lost, history.doubled, taken_over_s, over_s))
    TABLE.write_text(markdown(table))
    assert faults(history) == []
    come_back(jobs)


def kill(jobs: Jobs, victim: str, holder: int | None) -> None:
    """Kill all processes of a kind; of runners the one that works on the batch, or all if none does."""
    if victim not in (RUNNER, WITH_DISK):
        jobs.platform.kill(victim)
        return
    for pid in jobs.platform.pids("runner") if holder is None else [jobs.pid_of(holder)]:
        os.kill(pid, signal.SIGKILL)
        if victim == WITH_DISK:
            for file in (jobs.platform.home / "spool").glob(f"*-{pid}[.-]*"):
                with suppress(FileNotFoundError):
                    file.unlink()


def come_back(jobs: Jobs) -> None:
    """Wait until a caller is answered again and both runners live, so that the next cell begins with all processes."""
    asked = {"model": "smollm2", "messages": [{"role": "user", "content": "Hi."}], "max_tokens": 1}

    def ask() -> httpx.Response:
        with jobs.platform.http() as http:
            return http.post("/v1/chat/completions", json=asked).raise_for_status()

    patiently(ask)
    until("both runners are back", lambda: len(jobs.rows(LIVE)) >= RUNNERS, within_s=90, every_s=0.2)
