"""The gate counts real vLLM's work over each API, and tells it with each answer and of departed callers."""

import itertools
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from penstock.domain.serving.report import Used
from penstock.domain.tenancy.tenant import PLATFORM
from penstock.formats.report import COMMENT, decode
from tests.support.patience import until
from tests.support.workers.process import TicketMaker, WorkerProcess

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
RESPONSES, MESSAGES, EMBEDDINGS = "/v1/responses", "/v1/messages", "/v1/embeddings"
SAY = {"messages": [{"role": "user", "content": "Count to twenty."}]}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 12}}, "required": ["city"]}
TOOL = {"name": "look_up", "description": "Looks a city up.", "parameters": SCHEMA}

GENERATING: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": (CHAT, {**SAY, "max_tokens": 9}),
    "chat with choices": (CHAT, {**SAY, "max_tokens": 9, "n": 5, "temperature": 1.0}),
    "chat with a seed for each choice": (CHAT, {**SAY, "max_tokens": 9, "n": 3, "temperature": 1.0, "seed": 7}),
    "chat that ends at a stop string": (CHAT, {**SAY, "max_tokens": 60, "stop": ["3", "o"]}),
    "chat with log probabilities": (CHAT, {**SAY, "max_tokens": 5, "logprobs": True, "top_logprobs": 3}),
    "chat with a grammar": (CHAT, {**SAY, "max_tokens": 40, "structured_outputs": {"json": SCHEMA}}),
    "one prompt": (COMPLETIONS, {"prompt": "Once upon a time", "max_tokens": 7}),
    "prompts": (COMPLETIONS, {"prompt": ["Once", "upon a", "time there was"], "max_tokens": 7}),
    "prompts with choices": (COMPLETIONS, {"prompt": ["Once", "upon a"], "max_tokens": 7, "n": 3, "temperature": 1.0}),
    "ids": (COMPLETIONS, {"prompt": [[1, 2, 3], [4, 5]], "max_tokens": 4}),
    "echo": (COMPLETIONS, {"prompt": "Once upon a time", "max_tokens": 4, "echo": True}),
    "responses": (RESPONSES, {"input": "Count to twenty.", "max_output_tokens": 9}),
    "messages": (MESSAGES, {**SAY, "max_tokens": 9}),
    "messages with a system prompt": (MESSAGES, {**SAY, "system": "Be brief.", "max_tokens": 9}),
}
STREAMS: dict[str, tuple[str, dict[str, Any]]] = {
    **{
        name: (path, {**body, **({} if path in (RESPONSES, MESSAGES) else {"stream_options": {"include_usage": True}})})
        for name, (path, body) in GENERATING.items()
    },
    "chat in lots": (CHAT, {**SAY, "max_tokens": 30, "stream_interval": 20, "stream_options": {"include_usage": True}}),
    "chat that tells as it goes": (
        CHAT,
        {**SAY, "max_tokens": 9, "n": 2, "stream_options": {"include_usage": True, "continuous_usage_stats": True}},
    ),
}
_NAMES = (f"count-{number}" for number in itertools.count())


@pytest.fixture
def worker(unhurried: WorkerProcess) -> WorkerProcess:
    """Return a worker that may compile in peace."""
    return unhurried


def said(body: dict[str, Any]) -> tuple[int, int]:
    """Return the engine's own account of prompt and output, in any dialect."""
    usage = body["usage"]
    cached = sum(usage.get(name) or 0 for name in ("cache_read_input_tokens", "cache_creation_input_tokens"))
    prompt = usage.get("prompt_tokens") or usage.get("input_tokens", 0) + cached
    return prompt, usage.get("completion_tokens") or usage.get("output_tokens") or 0


def counted(worker: WorkerProcess, request: str, wait_s: float = 2.0) -> Used:
    """Return what the gate has counted, as it tells gateways."""
    body = {"requests": [request, "never-heard-of"], "wait_s": wait_s}
    answer = worker.post("/penstock/usage", body, TicketMaker(tenant=PLATFORM))
    assert answer.status_code == 200
    assert list(answer.json()) == [request]
    return Used(**answer.json()[request])


def whole(worker: WorkerProcess, path: str, body: dict[str, Any]) -> tuple[httpx.Response, Used]:
    """Ask for a whole answer; return it and what its head says that it took."""
    answer = worker.post(path, {"model": worker.version, **body}, timeout=120)
    assert answer.status_code == 200, answer.text
    told = decode(answer.headers["x-penstock-report"].encode()).used
    assert told is not None
    return answer, told


def stream(worker: WorkerProcess, path: str, body: dict[str, Any], name: str) -> Iterator[str]:
    asked = {"model": worker.version, "stream": True, **body}
    raw, headers = worker.sealed(path, asked, TicketMaker(request=name))
    url = f"{worker.report['url']}{path}"
    with httpx.stream("POST", url, content=raw, headers=headers, timeout=120, trust_env=False) as answer:
        assert answer.status_code == 200, answer.read()
        assert decode(answer.headers["x-penstock-report"].encode()).used is None
        text = ""
        for piece in answer.iter_text():
            text += piece
            *events, text = text.split("\n\n")
            yield from events


def _usage_in(events: list[str]) -> tuple[int, int]:
    """Return the engine's last word on prompt and output."""
    prompt = output = 0
    for event in events:
        data = event.partition("data: ")[2].partition("\n")[0]
        if not data.startswith("{"):
            continue
        body = json.loads(data)
        inner = [one for one in (body, body.get("response"), body.get("message")) if one and one.get("usage")]
        for one in inner[:1]:
            told = said(one)
            prompt, output = told[0] or prompt, told[1] or output
    return prompt, output


@pytest.mark.parametrize("name", GENERATING)
def test_a_whole_answer_tells_what_the_engine_says(worker: WorkerProcess, name: str) -> None:
    """The count in an answer's head is the engine's own usage, for each API, prompts, choices and stops."""
    path, body = GENERATING[name]
    answer, told = whole(worker, path, body)
    assert (told.prompt_tokens, told.output_tokens) == said(answer.json())
    prompts = len(body["prompt"]) if isinstance(body.get("prompt"), list) else 1
    assert (told.prompts, told.sequences) == (prompts, prompts * body.get("n", 1))
    assert told.cached_tokens <= told.prompt_tokens


def test_requests_beside_one_another_take_no_more_than_the_engines_time(worker: WorkerProcess) -> None:
    """The engine's seconds of eight answers at a time are together no more than the time that they all took."""
    path, body = COMPLETIONS, {"prompt": "Once upon a time", "max_tokens": 40, "ignore_eos": True}
    began = time.monotonic()
    with ThreadPoolExecutor(8) as pool:
        told = [one for _, one in pool.map(lambda _: whole(worker, path, body), range(8))]
    took_us = (time.monotonic() - began) * 1e6
    counted = [one.engine_us for one in told if one.engine_us]
    assert len(counted) == len(told)
    assert took_us / 4 < sum(counted) <= took_us


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_tells_what_the_engine_says(worker: WorkerProcess, name: str) -> None:
    """The count stands in front of a stream's last event, once, and is the engine's last word."""
    path, body = STREAMS[name]
    events = list(stream(worker, path, body, next(_NAMES)))
    told = [event for event in events if event.startswith(COMMENT.decode())]
    assert len(told) == 1
    comment, _, last = told[0].partition("\n")
    assert last == events[-1].partition("\n")[2]
    count = decode(comment.encode().removeprefix(COMMENT)).used
    assert count is not None
    assert (count.prompt_tokens, count.output_tokens) == _usage_in(events)


def test_beams_are_counted_as_the_engine_ran_them(worker: WorkerProcess) -> None:
    """A beam search takes one token of its prompt, then one of each beam at each step; its prompt counts once."""
    body = {"prompt": "Once upon a time", "max_tokens": 6, "n": 4, "use_beam_search": True, "temperature": 0.0}
    answer, told = whole(worker, COMPLETIONS, body)
    assert told.prompt_tokens == answer.json()["usage"]["prompt_tokens"]
    assert (told.prompts, told.output_tokens) == (1, 1 + 5 * 4)


def test_embeddings_are_counted_in_every_encoding(encoder: WorkerProcess) -> None:
    """Vectors as numbers, as text or as bytes: each answer tells the prompts' tokens (finding 4)."""
    texts = ["one", "two words", "and three of them"]
    answer, told = whole(encoder, EMBEDDINGS, {"input": texts})
    counted = (answer.json()["usage"]["prompt_tokens"], 3)
    assert (told.prompt_tokens, told.prompts) == counted
    for encoding in ("base64", "bytes", "bytes_only"):
        told = whole(encoder, EMBEDDINGS, {"input": texts, "encoding_format": encoding})[1]
        assert (told.prompt_tokens, told.prompts, told.output_tokens) == (*counted, 0)


@pytest.mark.parametrize("stays", [True, False], ids=["stream", "whole"])
def test_who_leaves_is_counted(worker: WorkerProcess, *, stays: bool) -> None:
    """What was generated until a caller left is known afterwards, streamed or not, and no more comes to it."""
    name, path, body = next(_NAMES), CHAT, {**SAY, "max_tokens": 400, "ignore_eos": True, "n": 2, "temperature": 1.0}
    if stays:
        events = stream(worker, path, body, name)
        seen = list(itertools.islice(events, 12))
        events.close()  # type: ignore[attr-defined]
        least = len(seen) - 2
    else:
        with pytest.raises(httpx.ReadTimeout):
            worker.post(path, {"model": worker.version, **body}, TicketMaker(request=name), timeout=1.5)
        least = 2
    count = counted(worker, name)
    assert count.is_final
    assert least <= count.output_tokens < 800
    assert count.sequences == 2
    assert count.prompt_tokens > 0
    until("the engine is idle", lambda: worker.metric("penstock_engine_running") == 0)
    assert counted(worker, name) == count


def test_who_leaves_while_its_prompt_is_read_took_the_engines_time(worker: WorkerProcess) -> None:
    """The steps that read the prompt of a departed caller were billed to no one."""
    name, body = next(_NAMES), {"prompt": "word " * 1500, "max_tokens": 400, "ignore_eos": True}
    began = time.monotonic()
    with pytest.raises(httpx.ReadTimeout):
        worker.post(COMPLETIONS, {"model": worker.version, **body}, TicketMaker(request=name), timeout=0.4)
    count = counted(worker, name)
    assert count.is_final
    assert count.engine_us is not None
    assert 0 < count.engine_us <= (time.monotonic() - began) * 1e6


def test_what_runs_is_counted_while_it_runs(worker: WorkerProcess) -> None:
    """A gateway that asks about a running answer hears what it has so far, and that it is not the end."""
    name = next(_NAMES)
    events = stream(worker, CHAT, {**SAY, "max_tokens": 300, "ignore_eos": True}, name)
    next(events)
    first, later = counted(worker, name, 0.0), counted(worker, name, 0.3)
    events.close()  # type: ignore[attr-defined]
    assert not later.is_final
    assert 0 < first.output_tokens < later.output_tokens


def test_callers_learn_nothing_of_others(worker: WorkerProcess) -> None:
    """Only the platform may ask what requests took."""
    answer = worker.post("/penstock/usage", {"requests": []})
    assert (answer.status_code, answer.headers["x-penstock-refused"]) == (401, "ticket")
