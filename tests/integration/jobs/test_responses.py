"""Stored responses from the official SDK: a gateway, two runners, real vLLM with SmolLM2 on the CPU."""

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from openai import APIStatusError, OpenAI
from openai.types.responses import Response

from penstock.domain.jobs.ids import JobName
from tests.support.patience import until
from tests.support.platforms.jobs import Jobs
from tests.support.platforms.local import Platform

pytestmark = pytest.mark.integration

MODEL = "smollm2"
ADD: dict[str, Any] = {
    "type": "function",
    "name": "add",
    "description": "Add two numbers",
    "parameters": {"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]},
    "strict": True,
}
ENDS = {"response.completed", "response.incomplete", "response.failed"}
Client = Callable[[], OpenAI]


@pytest.fixture(scope="module")
def platform(jobs: Jobs) -> Platform:
    return jobs.platform


@pytest.fixture(scope="module")
def client(platform: Platform) -> Iterator[Client]:
    """Yield a maker of clients: each has a connection of its own."""
    made: list[OpenAI] = []

    def new() -> OpenAI:
        made.append(OpenAI(base_url=f"{platform.url}/v1", api_key=platform.demo_key, max_retries=0, timeout=120))
        return made[-1]

    yield new
    for one in made:
        one.close()


def ask(client: OpenAI, text: object = "Say hello.", **fields: Any) -> Any:  # noqa: ANN401  by stream, two types
    create: Any = client.responses.create
    return create(model=MODEL, input=text, temperature=0, **{"max_output_tokens": 12, **fields})


def listed(client: OpenAI, response: str) -> list[Any]:
    """Return the input's items of all pages, oldest first."""
    return list(client.responses.input_items.list(response, order="asc", limit=2))


def ended(client: Client, made: Response) -> Response:
    """Wait for a background response, each time over another connection."""
    found: list[Response] = []

    def is_over() -> bool:
        found[:] = [client().responses.retrieve(made.id)]
        return found[0].status not in ("queued", "in_progress")

    until("the response ends", is_over, within_s=120, every_s=0.3)
    return found[0]


def refusal(call: Callable[[], object]) -> tuple[int, str | None]:
    with pytest.raises(APIStatusError) as caught:
        call()
    return caught.value.status_code, caught.value.body.get("param") if isinstance(caught.value.body, dict) else None


def test_a_conversation_goes_on_at_another_gateway(client: Client, platform: Platform) -> None:
    """Each turn has all turns before it in its prompt; the bodies are those that went out."""
    first = ask(client(), "My name is Ada.", metadata={"chat": "1"})
    before = platform.pids("gateway")
    platform.run("restart", "gateway")
    until("the gateway is another", lambda: not {*before} & {*platform.pids("gateway")}, within_s=60)
    second = ask(client(), "And yours?", previous_response_id=first.id)
    third = ask(client(), "Thanks.", previous_response_id=second.id, stream=True)
    last = [event for event in third if event.type in ENDS][-1].response
    assert first.usage.input_tokens < second.usage.input_tokens < last.usage.input_tokens
    assert (second.previous_response_id, last.previous_response_id) == (first.id, second.id)
    for made in (first, second, last):
        kept = client().responses.retrieve(made.id)
        assert kept.output_text == made.output_text
        assert kept.usage == made.usage
    assert client().responses.retrieve(first.id).metadata == {"chat": "1"}
    items = listed(client(), last.id)
    assert [item.role for item in items] == ["user", "assistant", "user", "assistant", "user"]
    whole = [{"role": item.role, "content": item.content[0].text} for item in items]
    alone = ask(client(), whole, store=False)
    assert alone.usage.input_tokens == last.usage.input_tokens, "stored turns are a prompt like any other"


def test_a_function_and_its_result(client: Client) -> None:
    """A stored call is answered by its result alone; a result without a call is refused by name."""
    made = ask(client(), "Add 2 and 2.", tools=[ADD], tool_choice="required", max_output_tokens=64)
    call = next(item for item in made.output if item.type == "function_call")
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "4"}
    answer = ask(client(), [result], previous_response_id=made.id, tools=[ADD])
    assert answer.output_text
    kinds = [item.type for item in listed(client(), answer.id)]
    assert kinds == ["message", "function_call", "function_call_output"]
    wrong = {**result, "call_id": "call_of_nobody"}
    assert refusal(lambda: ask(client(), [wrong], previous_response_id=made.id)) == (400, "input[0].call_id")


def test_a_background_response_runs_as_a_job(client: Client, platform: Platform) -> None:
    """It is queued, ends with its answer and usage, and stands in the ledger once."""
    made = ask(client(), background=True, instructions="Be brief.")
    assert (made.status, made.background, made.output) == ("queued", True, [])
    answer = ended(client, made)
    assert (answer.id, answer.status, answer.created_at) == (made.id, "incomplete", made.created_at)
    assert answer.output_text
    assert answer.usage is not None
    assert answer.usage.output_tokens == 12
    assert client().responses.cancel(made.id).status == "incomplete", "what has ended stays as it ended"
    after = ask(client(), "And?", previous_response_id=made.id)
    assert after.usage.input_tokens > answer.usage.input_tokens

    def is_billed() -> bool:
        rows = [row for row in platform.usage("demo") if row["request"].startswith(made.id)]
        return [int(row["output_tokens"]) for row in rows] == [12]

    until("its attempt is billed once", is_billed, within_s=30, every_s=0.5)


def read(events: Iterable[Any]) -> list[Any]:
    """Return the events; each kind has its own fields."""
    return list(events)


def test_a_stream_is_left_and_found_again(client: Client) -> None:
    """After any number the rest comes, once, with one end; the SDK's own helper reads it from its beginning."""
    seen = []
    with ask(client(), background=True, stream=True, max_output_tokens=24) as events:
        for event in events:
            seen.append(event)
            if event.sequence_number >= 4:
                break
    response = seen[0].response.id
    rest = read(client().responses.retrieve(response, stream=True, starting_after=seen[-1].sequence_number))
    whole = read(client().responses.retrieve(response, stream=True))
    assert [one.to_dict() for one in [*seen, *rest]] == [one.to_dict() for one in whole]
    assert [one.sequence_number for one in whole] == list(range(len(whole)))
    assert [one.type for one in whole if one.type in ENDS] == [whole[-1].type]
    text = "".join(one.delta for one in whole if one.type == "response.output_text.delta")
    assert text == whole[-1].response.output_text
    assert read(client().responses.retrieve(response, stream=True, starting_after=len(whole) - 1)) == []
    with pytest.raises(APIStatusError, match="beyond the newest event"):
        client().responses.retrieve(response, stream=True, starting_after=len(whole))


def test_a_stream_goes_on_after_its_runner_was_killed(client: Client, jobs: Jobs) -> None:
    """The next attempt's events follow the lost one's, whose item ends as incomplete; there is one end."""
    seen: list[Any] = []
    with ask(client(), background=True, stream=True, max_output_tokens=100, extra_body={"ignore_eos": True}) as events:
        for event in events:
            seen.append(event)
            if len(seen) == 8:
                os.kill(jobs.holder(JobName(seen[0].response.id)), signal.SIGKILL)
    numbers = [one.sequence_number for one in seen]
    assert numbers == sorted(set(numbers))
    assert [one.type for one in seen if one.type in ENDS] == [seen[-1].type]
    items = [one for one in seen if one.type in ("response.output_item.added", "response.output_item.done")]
    assert [(one.type.rpartition(".")[2], one.output_index) for one in items] == [
        ("added", 0),
        ("done", 0),
        ("added", 1),
        ("done", 1),
    ]
    assert items[1].item.status == "incomplete"
    fresh = read(client().responses.retrieve(seen[0].response.id, stream=True))
    assert fresh[-1].to_dict() == seen[-1].to_dict()
    text = "".join(one.delta for one in fresh if one.type == "response.output_text.delta")
    assert text == fresh[-1].response.output_text


def test_cancel_ends_a_running_response(client: Client) -> None:
    """It takes a second, and a second cancel changes nothing; its stream tells it."""
    with ask(client(), background=True, stream=True, max_output_tokens=900, extra_body={"ignore_eos": True}) as events:
        response = next(iter(events)).response.id
        until(
            "it runs",
            lambda: client().responses.retrieve(response).status == "in_progress",
            within_s=60,
            every_s=0.1,
        )
        began = time.monotonic()
        cancelled = client().responses.cancel(response)
        assert time.monotonic() - began < 5.0
        last = list(events)[-1]
    assert (cancelled.status, str(last.type)) == ("cancelled", "response.incomplete")
    assert client().responses.cancel(response).status == "cancelled"


def test_deletion_and_strangers(client: Client, platform: Platform) -> None:
    """A deleted response is gone with its bytes; another tenant never saw it."""
    kept = platform.home / "payloads"
    made = ask(client(), "The word is xylophone.")

    def objects() -> list[Path]:
        return [path for path in kept.rglob("*") if made.id[-16:] in path.name]

    until("it is kept", lambda: bool(objects()), within_s=30)
    assert not any(b"xylophone" in path.read_bytes() for path in objects())
    client().responses.delete(made.id)
    assert objects() == []
    assert refusal(lambda: client().responses.retrieve(made.id))[0] == 404
    assert refusal(lambda: ask(client(), previous_response_id=made.id)) == (400, "previous_response_id")
    unkept = ask(client(), store=False)
    assert refusal(lambda: client().responses.retrieve(unkept.id))[0] == 404


def test_what_is_not_served_is_refused_by_name(client: Client) -> None:
    """Each refusal is a 400 that names the field."""
    asked: list[tuple[dict[str, Any], str]] = [
        ({"background": True, "store": False}, "store"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"previous_response_id": "resp_none"}, "previous_response_id"),
        ({"prompt": {"id": "p"}}, "prompt"),
    ]
    assert [refusal(partial(ask, client(), **fields)) for fields, _ in asked] == [(400, param) for _, param in asked]
