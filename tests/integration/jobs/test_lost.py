"""Processes that are lost while jobs run: each job is answered once, and every attempt stands in the ledger once."""

import os
import signal
import time

import pytest

from penstock.domain.jobs.ids import JobName
from penstock.domain.jobs.job import JobState, Reason
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
