"""Jobs, files and batches on the command line, against a gateway's answers as they are written."""

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from penstock.cli import application
from penstock.clients.deferred import Caller
from penstock.domain.command_error import CommandError
from penstock.local import connections

app = application()

RUNNER = CliRunner()
LINE = {"custom_id": "1", "method": "POST", "url": "/v1/embeddings", "body": {"model": "minilm", "input": "x"}}
JOB = {
    "id": "job_0123456789ab",
    "object": "job",
    "state": "succeeded",
    "reason": None,
    "api": "/v1/chat/completions",
    "model": "smollm2",
    "version": "smollm2@0123456789ab",
    "created_at": 1_800_000_000,
    "not_before": None,
    "deadline_at": 1_800_086_400,
    "started_at": 1_800_000_001,
    "cancel_requested_at": None,
    "ended_at": 1_800_000_002,
    "expires_at": 1_802_592_002,
    "attempt": 2,
    "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
    "error": None,
    "webhook": None,
    "metadata": {},
    "response": {"status_code": 200, "request_id": "r", "body": {"choices": ["the answer"]}},
    "attempts": [
        {
            "attempt": 1,
            "request_id": "r-1",
            "began_at": 1_800_000_001,
            "ended_at": 1_800_000_002,
            "error": "engine_error",
        }
    ],
}
BATCH = {
    "id": "batch_0123456789ab",
    "status": "completed",
    "endpoint": "/v1/embeddings",
    "input_file_id": "file-in",
    "output_file_id": "file-out",
    "error_file_id": "file-bad",
    "completion_window": "24h",
    "created_at": 1_800_000_000,
    "completed_at": 1_800_000_100,
    "request_counts": {"total": 2, "completed": 1, "failed": 1},
    "errors": {"data": [{"code": "invalid_json", "message": "it is no JSON", "line": 2, "param": "body.n"}]},
}


class Gateway:
    """The answers of a gateway, in order for each address; the last one stays."""

    def __init__(self, answers: dict[tuple[str, str], list[Any]]) -> None:
        self.answers, self.asked = answers, list[httpx.Request]()

    def answer(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.asked.append(request)
        left = self.answers[request.method, request.url.path]
        found = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(found, httpx.Response):
            return found
        return httpx.Response(200, content=found) if isinstance(found, bytes) else httpx.Response(200, json=found)


Speak = Callable[[dict[tuple[str, str], list[Any]]], Gateway]


@pytest.fixture
def speak(monkeypatch: pytest.MonkeyPatch) -> Speak:
    """Return a function that lets commands find a gateway with these answers, and wait for nothing."""

    def made(answers: dict[tuple[str, str], list[Any]]) -> Gateway:
        gateway = Gateway(answers)

        @contextmanager
        def connected(_settings: object, key: str = "", url: str = "") -> Iterator[httpx.Client]:
            headers = {"x-key": key, "x-url": url}
            with httpx.Client(
                transport=httpx.MockTransport(gateway.answer), base_url="http://g", headers=headers
            ) as one:
                yield one

        monkeypatch.setattr(connections, "gateway", connected)
        monkeypatch.setattr(time, "sleep", lambda _: None)
        return gateway

    return made


def run(*words: str, code: int = 0, given: str = "") -> str:
    done = RUNNER.invoke(app, words, input=given, env={"COLUMNS": "200"})
    assert done.exit_code == code, done.output
    return done.output


def test_a_job_is_submitted_waited_for_and_its_answer_printed(speak: Speak) -> None:
    """The body comes from a file or the standard input; the answer is the API's own JSON, and nothing else."""
    path = f"/v1/jobs/{JOB['id']}"
    running = {**JOB, "state": "running"}
    gateway = speak({("POST", "/v1/jobs"): [running], ("GET", path): [running, running, JOB]})
    words = ("jobs", "submit", "-", "--wait", "--deadline", "2h", "--metadata", "order=17", "--key", "psk_1")
    assert json.loads(run(*words, given='{"model": "smollm2"}')) == {"choices": ["the answer"]}
    sent = json.loads(gateway.asked[0].content)
    assert sent == {
        "api": "/v1/chat/completions",
        "request": {"model": "smollm2"},
        "deadline_s": 7200.0,
        "metadata": {"order": "17"},
    }
    assert gateway.asked[0].headers["x-key"] == "psk_1"
    assert len({one.headers.get("idempotency-key") for one in gateway.asked}) == 2


def test_a_refused_submit_is_sent_again_under_its_key(speak: Speak) -> None:
    """A gateway that restarts, or a busy minute: the same key, so that one job is made."""
    away = httpx.Response(503, json={"error": {"message": "away", "code": "store_unavailable"}})
    gateway = speak({("POST", "/v1/jobs"): [away, away, JOB]})
    run("jobs", "submit", "-", given="{}")
    keys = [one.headers["idempotency-key"] for one in gateway.asked]
    assert (len(keys), len(set(keys))) == (3, 1)


def test_a_refusal_is_one_sentence(speak: Speak) -> None:
    """It names the field's fault and the code; a body that is no JSON is told before anything is sent."""
    refusal = httpx.Response(400, json={"error": {"message": "deadline_s is too long", "code": "invalid_field"}})
    gateway = speak({("POST", "/v1/jobs"): [refusal]})
    assert "deadline_s is too long [invalid_field, status 400]" in run("jobs", "submit", "-", given="{}", code=1)
    assert "is no JSON" in run("jobs", "submit", "-", given="{", code=1)
    assert "NAME=VALUE" in run("jobs", "submit", "-", "--metadata", "x", given="{}", code=1)
    assert len(gateway.asked) == 1


def test_jobs_are_listed_page_by_page_and_shown_with_their_attempts(speak: Speak) -> None:
    """A list goes on after its last id until it has as many as asked for."""
    more = {"data": [JOB] * 100, "has_more": True, "last_id": "job_a"}
    gateway = speak({("GET", "/v1/jobs"): [more, more], ("GET", f"/v1/jobs/{JOB['id']}"): [JOB]})
    assert run("jobs", "list", "--limit", "150", "--state", "succeeded").count(str(JOB["id"])) >= 150
    queries = [dict(one.url.params) for one in gateway.asked]
    assert queries == [{"state": "succeeded", "limit": "100"}, {"state": "succeeded", "limit": "50", "after": "job_a"}]
    shown = run("jobs", "show", str(JOB["id"]))
    for part in ("job_0123456789ab is succeeded", "7 prompt + 3 output", "engine_error", "2027-01-15 08:00:00 UTC"):
        assert part in shown


@pytest.mark.parametrize("act", ["cancel", "replay"])
def test_a_job_is_cancelled_replayed_and_deleted(speak: Speak, act: str) -> None:
    """Each is one request to the job's own address."""
    path = f"/v1/jobs/{JOB['id']}"
    gateway = speak({("POST", f"{path}/{act}"): [JOB], ("DELETE", path): [{"deleted": True}]})
    assert str(JOB["id"]) in run("jobs", act, str(JOB["id"]))
    assert "is deleted" in run("jobs", "delete", str(JOB["id"]))
    assert [one.method for one in gateway.asked] == ["POST", "DELETE"]


def test_an_answer_that_is_not_there_is_told(speak: Speak) -> None:
    """Content of a job that still waits is an error with the command that follows it."""
    speak({("GET", f"/v1/jobs/{JOB['id']}"): [{**JOB, "state": "queued", "response": None}]})
    assert "has no answer: it is queued" in run("jobs", "content", str(JOB["id"]), code=1)


def batch_answers(*states: dict[str, Any]) -> dict[tuple[str, str], list[Any]]:
    return {
        ("POST", "/v1/files"): [{"id": "file-in"}],
        ("POST", "/v1/batches"): [{**BATCH, "status": "validating"}],
        ("GET", "/v1/batches/batch_0123456789ab"): [*states],
        ("GET", "/v1/files/file-out/content"): [b'{"custom_id": "1"}\n'],
        ("GET", "/v1/files/file-bad/content"): [b'{"custom_id": "2"}\n'],
    }


def test_a_batch_runs_from_its_file_to_its_files(speak: Speak, tmp_path: Path) -> None:
    """Uploaded, made for its lines' API, followed with its counts, and both files written beside it."""
    lines = tmp_path / "lines.jsonl"
    lines.write_text(json.dumps(LINE) + "\n")
    running = {**BATCH, "status": "in_progress", "request_counts": {"total": 2, "completed": 1, "failed": 0}}
    gateway = speak(batch_answers(running, BATCH))
    told = run("batch", "run", str(lines), "--window", "1h")
    assert "in_progress: 1 of 2 lines" in told
    assert json.loads(gateway.asked[1].content) == {
        "input_file_id": "file-in",
        "endpoint": "/v1/embeddings",
        "completion_window": "1h",
    }
    assert b'name="purpose"' in gateway.asked[0].content
    assert (tmp_path / "lines.jsonl.output.jsonl").read_text() == '{"custom_id": "1"}\n'
    assert (tmp_path / "lines.jsonl.errors.jsonl").read_text() == '{"custom_id": "2"}\n'


@pytest.mark.parametrize(
    ("reason", "says"),
    [("paused", "the operator has paused"), ("budget", "its budget is used up"), ("hours", "its plan's hours")],
)
def test_a_batch_that_waits_says_why(speak: Speak, reason: str, says: str) -> None:
    """In the list and by itself: otherwise it looks as if it ran."""
    waits = {**BATCH, "status": "in_progress", "reason": reason}
    speak(
        {("GET", "/v1/batches"): [{"data": [waits], "has_more": False}], ("GET", f"/v1/batches/{BATCH['id']}"): [waits]}
    )
    assert says in run("batches", "show", str(BATCH["id"]))
    assert says in " ".join(run("batches", "list").split())


def test_a_batch_that_failed_ends_the_command_with_its_lines_errors(speak: Speak, tmp_path: Path) -> None:
    """Line, message and code; no file is written for a batch that made none."""
    lines = tmp_path / "lines.jsonl"
    lines.write_text("\ufeff" + json.dumps(LINE) + "\r\n", encoding="utf-8")
    failed = {**BATCH, "status": "failed", "output_file_id": None, "error_file_id": None}
    speak(batch_answers(failed))
    assert "line 2: body.n: it is no JSON [invalid_json]" in run("batch", "run", str(lines), code=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lines.jsonl"]


@pytest.mark.parametrize("text", ["", "no json", '{"custom_id": "1"}', "[1]"])
def test_a_file_of_something_else_is_refused_before_it_is_sent(speak: Speak, tmp_path: Path, text: str) -> None:
    """Its first line is no request: nothing is uploaded."""
    lines = tmp_path / "lines.jsonl"
    lines.write_text(text)
    gateway = speak({})
    assert "is no request" in run("batch", "run", str(lines), code=1)
    assert gateway.asked == []


def test_batches_and_files_are_listed_and_acted_on(speak: Speak, tmp_path: Path) -> None:
    """Lists have counts and sizes; pause, resume and cancel are one request each; content goes into a file."""
    file = {"id": "file-in", "filename": "a.jsonl", "purpose": "batch", "bytes": 1234, "created_at": 1_800_000_000}
    acts = {("POST", f"/v1/batches/{BATCH['id']}/{act}"): [BATCH] for act in ("cancel", "pause", "resume")}
    speak(
        {
            **acts,
            ("GET", "/v1/batches"): [{"data": [BATCH], "has_more": False}],
            ("GET", "/v1/files"): [{"data": [file], "has_more": False}],
            ("GET", "/v1/files/file-in/content"): [b"0123456789"],
            ("DELETE", "/v1/files/file-in"): [{"deleted": True}],
        }
    )
    assert re.search(r"batch_0123456789ab +completed +/v1/embeddings +2 +1 +1", run("batches", "list"))
    assert "1,234" in run("files", "list")
    for act in ("cancel", "pause", "resume"):
        assert "completed: 2 of 2 lines, 1 failed" in run("batches", act, str(BATCH["id"]))
    to = tmp_path / "content"
    assert "10 bytes" in run("files", "content", "file-in", "-o", str(to))
    assert to.read_bytes() == b"0123456789"
    assert "is deleted" in run("files", "delete", "file-in")


def test_a_gateway_that_stays_away_ends_the_command() -> None:
    """Five attempts with growing waits, then the refusal as it came."""
    waits = list[float]()
    away = httpx.Response(503, json={"error": {"message": "away", "code": "no_capacity"}}, headers={"retry-after": "3"})
    gateway = httpx.Client(transport=httpx.MockTransport(lambda _: away), base_url="http://g")
    with gateway as http, pytest.raises(CommandError, match="away"):
        Caller(http, waits.append).get("/v1/jobs")
    assert waits == [3.0, 6.0, 12.0, 24.0]
