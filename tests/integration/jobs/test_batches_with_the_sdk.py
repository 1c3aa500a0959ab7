"""Batches on a real platform, through OpenAI's SDK as it is: files, batches, results."""

import io
import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai import OpenAI
from openai.types import Batch

from tests.support.patience import until
from tests.support.platforms.jobs import Jobs

pytestmark = [pytest.mark.integration, pytest.mark.slow]
MODEL = "smollm2"
OVER = {"completed", "failed", "expired", "cancelled"}


@pytest.fixture(scope="module")
def client(jobs: Jobs) -> Iterator[OpenAI]:
    platform = jobs.platform
    with OpenAI(base_url=f"{platform.url}/v1", api_key=platform.demo_key, max_retries=0, timeout=60) as sdk:
        yield sdk


def line(custom_id: str, *, words: str = "Hi.", tokens: int = 4, **more: Any) -> str:  # noqa: ANN401  any JSON
    body = {"model": MODEL, "messages": [{"role": "user", "content": words}], "max_tokens": tokens, **more}
    return json.dumps({"custom_id": custom_id, "method": "POST", "url": "/v1/chat/completions", "body": body})


def create(client: OpenAI, *lines: str, window: Any = "24h", key: str = "") -> Batch:  # noqa: ANN401  not the SDK's own
    data = "\n".join(lines).encode()
    file = client.files.create(file=("in.jsonl", io.BytesIO(data)), purpose="batch")
    return client.batches.create(
        input_file_id=file.id,
        endpoint="/v1/chat/completions",
        completion_window=window,
        metadata={"run": "7"},
        extra_headers={"Idempotency-Key": key} if key else None,
    )


def ended(client: OpenAI, batch: Batch, *, within_s: float = 90.0) -> Batch:
    until("the batch ends", lambda: client.batches.retrieve(batch.id).status in OVER, within_s=within_s, every_s=0.5)
    return client.batches.retrieve(batch.id)


def results(client: OpenAI, batch: Batch) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the lines of the output file, and of the error file."""

    def read(file: str | None) -> list[dict[str, Any]]:
        return [json.loads(one) for one in client.files.content(file).text.splitlines()] if file else []

    return read(batch.output_file_id), read(batch.error_file_id)


def test_a_file_becomes_results(client: OpenAI) -> None:
    """Answers with their usage in one file, the API's own error in the other, each line once."""
    batch = create(client, *(line(f"c{number}") for number in range(6)), line("long", words="word " * 9_000))
    assert (batch.status, batch.metadata, batch.completion_window) == ("validating", {"run": "7"}, "24h")
    done = ended(client, batch)
    output, errors = results(client, done)
    assert (done.status, done.model) == ("completed", MODEL)
    assert sorted(one["custom_id"] for one in output) == [f"c{number}" for number in range(6)]
    body = output[0]["response"]["body"]
    assert (body["object"], output[0]["response"]["status_code"]) == ("chat.completion", 200)
    (failed,) = errors
    assert (failed["custom_id"], failed["response"]["status_code"], failed["error"]) == ("long", 400, None)
    assert failed["response"]["body"]["error"]["code"] == "context_length_exceeded"
    counts = done.request_counts
    assert counts is not None
    assert (counts.total, counts.completed, counts.failed) == (7, 6, 1)
    assert done.usage is not None
    assert done.usage.output_tokens == sum(one["response"]["body"]["usage"]["completion_tokens"] for one in output)
    assert client.files.retrieve(str(done.output_file_id)).purpose == "batch_output"
    assert None not in (done.in_progress_at, done.finalizing_at, done.completed_at)


def test_a_wrong_file_names_its_lines(client: OpenAI) -> None:
    """Nothing runs, and each fault has code, line and parameter."""
    failed = ended(client, create(client, line("a"), line("a"), line("b", model="nobody"), "{", line("c", stream=True)))
    assert (failed.status, failed.output_file_id) == ("failed", None)
    assert failed.errors is not None
    assert [(one.line, one.code, one.param) for one in failed.errors.data or ()] == [
        (2, "duplicate_custom_id", "custom_id"),
        (3, "model_not_found", "body.model"),
        (4, "invalid_json_line", None),
        (5, "invalid_field", "body.stream"),
    ]


def test_a_cancelled_batch_ends_within_half_a_minute(client: OpenAI) -> None:
    """What was done stays, the rest is told as cancelled; the file in use was not to be deleted."""
    batch = create(client, *(line(f"c{number}", tokens=200, ignore_eos=True) for number in range(60)))
    until("it runs", lambda: client.batches.retrieve(batch.id).status == "in_progress", within_s=60, every_s=0.2)
    with pytest.raises(openai.ConflictError, match=batch.id):
        client.files.delete(batch.input_file_id)
    assert client.batches.cancel(batch.id).status == "cancelling"
    done = ended(client, batch, within_s=30.0)
    output, errors = results(client, done)
    assert done.status == "cancelled"
    assert sorted(one["custom_id"] for one in output + errors) == sorted(f"c{number}" for number in range(60))
    assert {one["error"]["code"] for one in errors} == {"batch_cancelled"}
    assert client.files.delete(batch.input_file_id).deleted


def test_a_paused_batch_waits(client: OpenAI) -> None:
    """Paused before it runs, nothing of it is done; resumed it completes."""
    batch = create(client, *(line(f"c{number}") for number in range(4)))
    paused = client.post(f"/batches/{batch.id}/pause", cast_to=Batch)
    assert paused.id == batch.id
    until("it is accepted", lambda: client.batches.retrieve(batch.id).status == "in_progress", within_s=60, every_s=0.2)
    counts = client.batches.retrieve(batch.id).request_counts
    assert counts is not None
    assert (counts.total, counts.completed) == (4, 0)
    client.post(f"/batches/{batch.id}/resume", cast_to=Batch)
    assert ended(client, batch).status == "completed"


def test_a_window_that_is_not_offered(client: OpenAI) -> None:
    """It is a 422 that tells what is allowed, and a repeated request under its key makes one batch."""
    with pytest.raises(openai.UnprocessableEntityError, match="24h"):
        create(client, line("a"), window="1h")
    first = create(client, line("a"), key="a-key")
    again = client.batches.create(
        input_file_id=first.input_file_id,
        endpoint="/v1/chat/completions",
        completion_window="24h",
        metadata={"run": "7"},
        extra_headers={"Idempotency-Key": "a-key"},
    )
    assert again.id == first.id
    assert first.id in [one.id for one in client.batches.list(limit=5)]
    assert ended(client, first).status == "completed"
