import json
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.worker import meter
from penstock.worker.engines.answers import (
    cached_in,
    with_cached,
    with_cut_end,
    with_cut_item,
    with_default_choice,
    with_inputs,
)


@pytest.mark.parametrize(("cached", "created"), [(0, 128), (96, 0)])
def test_the_first_event_tells_cached_tokens(cached: int, created: int) -> None:
    """Input and cached tokens of the first event are those of the last one."""
    counts = meter.Meter()
    counts.cached(cached, created)
    token = meter.current.set(counts)
    try:
        usage = {"prompt_tokens": 111, "completion_tokens": 0}
        told = json.loads(cached_in(f"data: {json.dumps({'usage': usage})}\n\n").removeprefix("data: "))
    finally:
        meter.current.reset(token)
    assert told["usage"].get("prompt_tokens_details") == {
        "cached_tokens": cached,
        "created_cache_tokens": created,
    }


async def test_ids_of_messages_are_anthropics() -> None:
    """Of the message and its tool calls, whole and streamed; a text that quotes an id stays."""
    call = {"index": 0, "id": "chatcmpl-tool-9", "function": {"name": "f"}}
    text = '"id":"chatcmpl-tool-9"'
    chunks = [f"data: {json.dumps({'id': 'chatcmpl-req-1', 'usage': {}}, separators=(',', ':'))}\n\n"]
    for delta in ({"tool_calls": [call]}, {"content": text}):
        told = {"id": "chatcmpl-req-1", "choices": [{"delta": delta}]}
        chunks.append(f"data: {json.dumps(told, separators=(',', ':'))}\n\n")

    async def stream() -> AsyncIterator[str]:
        for chunk in chunks:
            yield chunk

    async def passing(_: object, given: AsyncIterator[str]) -> AsyncIterator[str]:
        async for chunk in given:
            yield chunk

    token = meter.current.set(meter.Meter())
    try:
        seen = [json.loads(one.removeprefix("data: ")) async for one in with_cached(passing)(None, stream())]
    finally:
        meter.current.reset(token)
    assert seen[0]["id"] == "msg_req-1"
    assert seen[1]["choices"][0]["delta"]["tool_calls"][0]["id"] == "toolu_9"
    assert seen[2]["choices"][0]["delta"]["content"] == text
    function = SimpleNamespace(arguments="{}")
    message = SimpleNamespace(tool_calls=[SimpleNamespace(id="chatcmpl-tool-9", function=function)])
    choices = [SimpleNamespace(message=message, finish_reason="stop")]
    whole = with_inputs(lambda _, given: given)(None, SimpleNamespace(id="chatcmpl-req-1", choices=choices))
    assert (whole.id, message.tool_calls[0].id) == ("msg_req-1", "toolu_9")


def test_what_is_no_chunk_passes() -> None:
    """Neither the end of a stream nor an answer without a meter is touched."""
    assert cached_in("data: [DONE]\n\n") == "data: [DONE]\n\n"


@pytest.mark.parametrize(
    ("status", "items", "expected"),
    [
        ("incomplete", ["completed", "completed"], ["completed", "incomplete"]),
        ("completed", ["completed"], ["completed"]),
        ("incomplete", [], []),
    ],
)
def test_the_last_item_of_a_truncated_response_is_incomplete(
    status: str, items: list[str], expected: list[str]
) -> None:
    """A function call that was cut is no call to make."""
    response = SimpleNamespace(status=status, output=[SimpleNamespace(status=one) for one in items])
    made = with_cut_item(lambda: response)()
    assert [item.status for item in made.output] == expected


def event(kind: str, status: str = "completed") -> SimpleNamespace:
    return SimpleNamespace(type=kind, item=SimpleNamespace(status=status))


DONE, DELTA = "response.output_item.done", "response.output_text.delta"


@pytest.mark.parametrize(
    ("kinds", "finish", "expected"),
    [
        ([DONE, DELTA, DONE], "length", ["completed", "incomplete"]),
        ([DONE, DONE], "length", ["completed", "incomplete"]),
        ([DELTA, DONE], "stop", ["completed"]),
        ([DONE, DELTA], "length", ["completed"]),
        ([], "length", []),
    ],
)
async def test_the_last_item_of_a_truncated_stream_ends_as_incomplete(
    kinds: list[str], finish: str, expected: list[str]
) -> None:
    """Only the last one, each event once and in its order."""
    context = SimpleNamespace(last_output=SimpleNamespace(outputs=[SimpleNamespace(finish_reason=finish)]))
    made = [event(kind) for kind in kinds]

    async def stream(_: object, *__: object) -> AsyncIterator[Any]:
        for one in made:
            yield one

    seen = [one async for one in with_cut_end(stream)(None, None, None, None, context)]
    assert seen == made
    assert [one.item.status for one in seen if one.type == DONE] == expected


@pytest.mark.parametrize(
    ("tools", "choice", "expected"), [([], "none", "auto"), (["f"], "none", "none"), (["f"], "auto", "auto")]
)
def test_without_tools_the_default_choice_is_told(tools: list[str], choice: str, expected: str) -> None:
    """As OpenAI does."""
    response = SimpleNamespace(tools=tools, tool_choice=choice)
    assert with_default_choice(lambda: response)().tool_choice == expected
