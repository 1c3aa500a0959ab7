"""Processes that are lost while jobs run: each job is answered once, and every attempt stands in the ledger once."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import psutil
import pytest

from penstock.domain.jobs.ids import JobName
from penstock.domain.jobs.job import JobState, Reason
from tests.support import tree
from tests.support.failures.wrong_clock import wrong_by
from tests.support.patience import patient, until
from tests.support.platforms.jobs import Jobs, chat

TOKENS = 60


def begun(jobs: Jobs, number: int = 6) -> list[JobName]:
    """Submit jobs that take some seconds, and return them once they run."""
    names = jobs.submit(*(chat(f"Tell story {n}.", TOKENS) for n in range(number)))
    jobs.until(lambda: jobs.running(names))
    return names


def check(jobs: Jobs, names: list[JobName]) -> None:
    """Check that each job has one delivered answer, one paid row, and no attempt without its row."""
    for job in jobs.wait(names, within_s=180):
        rows = jobs.billed(job.name)
        paid = [row for row in rows if row["cost"] > 0]
        assert job.state is JobState.SUCCEEDED
        assert [row["request"] for row in paid] == [job.request]
        assert len(rows) >= job.attempt
        assert jobs.answer(job)["id"] == f"chatcmpl-{job.request}"


def test_a_killed_runner_is_taken_over(jobs: Jobs) -> None:
    """Its jobs are queued again within two seconds, and run to their only answer."""
    names = begun(jobs)
    holder = jobs.holder(names[0])
    held = [name for name in names if jobs.holder(name) == holder]
    os.kill(holder, signal.SIGKILL)
    at = time.monotonic()
    jobs.until(
        lambda: all(
            jobs.rows("select from job_attempt join job on job.id = job where name = $1", name) for name in held
        )
    )
    assert time.monotonic() - at < 6.0
    check(jobs, names)


def test_a_frozen_runner_is_fenced(jobs: Jobs) -> None:
    """A runner that stood still beyond its lease changes nothing any more when it comes back."""
    before = jobs.counted("penstock_job_attempts")["fenced"]
    names = begun(jobs, 2)
    with jobs.platform.frozen(jobs.holder(names[0])):
        jobs.until(lambda: jobs.job(names[0]).epoch > 1, within_s=40)
    check(jobs, names)
    jobs.until(lambda: jobs.counted("penstock_job_attempts")["fenced"] > before, within_s=20)


@pytest.mark.parametrize(
    "process",
    [
        "postgres",
        *(pytest.param(one, marks=pytest.mark.drill) for one in ("engine", "gateway", "controller", "worker")),
    ],
)
def test_another_process_is_killed(jobs: Jobs, process: str) -> None:
    """Whatever else ends, no job is lost, doubled or billed twice."""
    names = begun(jobs)
    jobs.platform.kill(process)
    check(jobs, names)


@pytest.mark.drill
def test_a_worker_whose_machine_is_taken_takes_no_job_along(jobs: Jobs) -> None:
    """A spot machine's notice ends its worker while jobs run there: they go on at another one, or run again."""
    names = begun(jobs)
    for pid in jobs.platform.pids("worker"):
        os.kill(pid, signal.SIGTERM)
    check(jobs, names)


@pytest.mark.drill
def test_a_drain_gives_back_what_has_not_begun(jobs: Jobs) -> None:
    """A rolling restart of the runners loses nothing and costs no attempt."""
    names = begun(jobs)
    jobs.platform.run("restart", "runners")
    check(jobs, names)
    assert all(jobs.job(name).attempt == 1 for name in names)


def test_a_job_that_takes_its_runner_down_ends_as_a_dead_letter(jobs: Jobs) -> None:
    """A lost attempt counts: after the last one the job has failed, unbilled."""
    (name,) = jobs.submit(chat("Tell all.", 400), max_attempts=2)
    for attempt in (1, 2):
        jobs.until(lambda n=attempt: jobs.running([name]) and jobs.job(name).attempt == n)  # type: ignore[misc]
        os.kill(jobs.holder(name), signal.SIGKILL)
    jobs.until(lambda: not jobs.job(name).state.is_open, within_s=20)
    job = jobs.job(name)
    assert (job.state, job.reason, job.error) == (JobState.FAILED, Reason.DEAD_LETTER, "runner_lost")
    assert [row["cost"] for row in jobs.billed(name)] == [0, 0]


@contextmanager
def only_a_wrong_runner(jobs: Jobs, ahead_s: float) -> Iterator[int]:
    """Run one more runner, its machine's clock off, while the others stand still; yield its id."""
    others = jobs.platform.pids("runner")
    named = {"PENSTOCK_GATEWAY_NAME": f"wrong:{ahead_s:.0f}", "PENSTOCK_LOG_LEVEL": "error"}
    command = [sys.executable, "-m", "tests.support.failures.wrong_clock", "jobs-runner"]
    path = {"PYTHONPATH": f"{tree.ROOT}/platform:{tree.ROOT}"}
    environment = {**psutil.Process(others[0]).environ(), **path, **named, **wrong_by(ahead_s)}
    process = subprocess.Popen(command, cwd=tree.ROOT, env=environment)
    found: list[int] = []

    def lives() -> bool:
        assert process.poll() is None
        found[:] = [row["id"] for row in jobs.rows("select id from runner where name like 'wrong:%'")]
        return bool(found)

    try:
        until("it lives", lives, within_s=60)
        with ExitStack() as still:
            for pid in others:
                still.enter_context(jobs.platform.frozen(pid))
            yield found[0]
    finally:
        process.terminate()
        process.wait(patient(60))


@pytest.mark.parametrize("ahead_s", [90.0, -90.0])
def test_a_runner_with_a_wrong_clock_starts_and_ends_no_job_at_a_wrong_time(jobs: Jobs, ahead_s: float) -> None:
    """Deadlines, beginnings and stored times are by the database's clock."""
    with only_a_wrong_runner(jobs, ahead_s) as wrong:
        now = time.time()
        names = jobs.submit(chat("Now.", 4), deadline_at=now + 80)
        names += jobs.submit(chat("Later.", 4), not_before=now + 4, deadline_at=now + 80)
        ended = jobs.wait(names, within_s=75)
        over = time.time()
    assert {(job.state, job.runner) for job in ended} == {(JobState.SUCCEEDED, wrong)}
    assert all(now - 2 <= job.started_at <= job.ended_at <= over + 2 for job in ended)
    assert ended[-1].started_at >= now + 4
