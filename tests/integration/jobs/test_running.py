"""A job on a real platform: asked like a caller's request, answered with the API's body, billed once."""

import time

import pytest

from penstock.domain.jobs.ids import BatchId
from penstock.domain.jobs.job import PAUSE_ALL, JobState, Reason
from penstock.domain.serving.request import Api
from tests.support.platforms.jobs import Jobs, chat

TOOL = {"type": "function", "function": {"name": "paint", "parameters": {"type": "object"}}}
LONG = 400
"""Tokens of an answer that takes tens of seconds here."""


@pytest.mark.parametrize(
    ("api", "body"),
    [
        (Api.CHAT, chat("Name three colours.", 8)),
        (Api.CHAT, chat("Name three colours.", 8, tools=[TOOL], tool_choice="none")),
        (Api.COMPLETIONS, {"model": "smollm2", "prompt": "One, two,", "max_tokens": 8, "temperature": 0}),
    ],
    ids=["streamed inside", "not streamed inside", "completion"],
)
def test_its_answer_is_the_apis(jobs: Jobs, api: Api, body: dict[str, object]) -> None:
    """The stored body says what the same request is answered at the gateway, with the same fields."""
    (name,) = jobs.submit(body, api=api)
    (job,) = jobs.wait([name])
    direct = jobs.ask(api, body)
    stored = jobs.answer(job)
    assert (job.state, job.status) == (JobState.SUCCEEDED, 200)
    assert stored.keys() == direct.keys()
    assert stored["choices"] == direct["choices"]
    assert stored["usage"]["total_tokens"] == direct["usage"]["total_tokens"]  # type: ignore[index]


def test_it_is_billed_once_in_its_class(jobs: Jobs) -> None:
    """Its only ledger row is of class batch and has its request's id; the job says the same usage."""
    (job,) = jobs.wait(jobs.submit(chat()))
    (row,) = jobs.billed(job.name)
    assert (row["request"], row["priority"], row["outcome"]) == (job.request, "batch", "ok")
    assert (row["prompt_tokens"], row["output_tokens"]) == (job.prompt_tokens, job.output_tokens)
    assert row["cost"] > 0


def test_a_request_at_fault_fails_at_once_and_free(jobs: Jobs) -> None:
    """The API's own error is kept as the answer, and nothing is billed."""
    (job,) = jobs.wait(jobs.submit({"model": "smollm2", "messages": []}))
    error = jobs.answer(job)["error"]
    assert (job.state, job.reason, job.status, job.attempt) == (JobState.FAILED, Reason.REFUSED, 400, 1)
    assert error["param"] == "messages"  # type: ignore[index]
    assert jobs.billed(job.name) == []


def test_lines_of_a_batch_share_objects(jobs: Jobs) -> None:
    """Many lines are stored in few objects, and each line's place in them is its own answer."""
    done = jobs.wait(jobs.submit(*(chat(f"Say {n}.", 4) for n in range(12)), batch=BatchId("batch_1")))
    answers = [jobs.answer(job)["id"] for job in done]
    assert answers == [f"chatcmpl-{job.name}-{job.epoch}" for job in done]
    assert len({job.output.object for job in done}) < len(done)


def test_a_cancel_frees_its_seat(jobs: Jobs) -> None:
    """A running request ends within a second of its cancel, unbilled."""
    (name,) = jobs.submit(chat("Tell all.", LONG))
    jobs.until(lambda: jobs.running([name]))
    time.sleep(1.0)
    began = time.monotonic()
    jobs.cancel(name)
    jobs.until(lambda: not jobs.job(name).state.is_open, within_s=10)
    took_s = time.monotonic() - began
    (row,) = jobs.billed(name)
    assert (jobs.job(name).state, row["cost"]) == (JobState.CANCELLED, 0)
    assert took_s < 3.0
    assert 0 < row["output_tokens"] < LONG / 2


def test_a_deadline_ends_what_runs(jobs: Jobs) -> None:
    """Past its deadline a job has failed, and nothing follows."""
    (name,) = jobs.submit(chat("Tell all.", LONG), deadline_at=time.time() + 4.0)
    (job,) = jobs.wait([name], within_s=20)
    assert (job.state, job.reason) == (JobState.FAILED, Reason.DEADLINE)


def test_paused_work_holds_no_seat_and_goes_on(jobs: Jobs) -> None:
    """A pause of all batch work gives a running job back, which costs it no attempt; a resume runs it."""
    (name,) = jobs.submit(chat("Tell all.", 120))
    jobs.until(lambda: jobs.running([name]))
    jobs.pause(PAUSE_ALL)
    try:
        jobs.until(lambda: jobs.job(name).state is JobState.QUEUED, within_s=10)
        time.sleep(2.0)
        assert jobs.job(name).state is JobState.QUEUED
    finally:
        jobs.resume(PAUSE_ALL)
    (job,) = jobs.wait([name])
    assert (job.state, job.attempt) == (JobState.SUCCEEDED, 1)
    assert [row["cost"] > 0 for row in jobs.billed(name)] == [False, True]


def test_an_idle_runner_begins_at_once(jobs: Jobs) -> None:
    """A submit wakes a runner: a job runs within tens of milliseconds on a quiet machine."""
    starts = []
    for _ in range(5):
        (job,) = jobs.wait(jobs.submit(chat(tokens=1)))
        starts.append(job.started_at - job.created_at)
    assert sorted(starts)[2] < 0.5
