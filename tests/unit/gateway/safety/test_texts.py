"""Every field of every API's answers that may hold text is judged, in events and whole answers, known or not."""

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.models.tensors import joined
from penstock.domain.serving.request import Api
from penstock.gateway.answers import sse
from penstock.gateway.safety import tensors, texts
from penstock.gateway.safety.forms import Forms
from tests.unit.gateway.safety.test_guards import SECRET, Answered, event

ENGINES = {
    *("id", "object", "model", "role", "type", "status", "finish_reason", "stop_reason", "call_id", "item_id"),
    *("system_fingerprint", "service_tier"),
}
"""Fields with words of the engine."""
TOKENS: Mapping[str, Any] = {
    "content": [{"token": "a", "bytes": [97], "logprob": -1.0, "top_logprobs": [{"token": "b", "logprob": -2.0}]}],
    "refusal": [{"token": "a", "logprob": -1.0}],
}
CHAT_PART: Mapping[str, Any] = {
    "role": "assistant",
    "content": "a",
    "reasoning": "a",
    "reasoning_content": "a",
    "refusal": "a",
    "tool_calls": [
        {"index": 0, "id": "c", "type": "function", "function": {"name": "a", "arguments": '{"a": "b"}'}},
        {"index": 1, "id": "d", "type": "custom", "custom": {"name": "a", "input": "a"}},
    ],
    "function_call": {"name": "a", "arguments": "a"},
    "annotations": [{"type": "url_citation", "url_citation": {"title": "a", "url": "a"}}],
    "audio": {"id": "a", "transcript": "a"},
    "yet_unknown": {"any": ["a"]},
}
CHAT_HEAD: Mapping[str, Any] = {"id": "c", "object": "o", "created": 1, "model": "m", "system_fingerprint": "f"}
ITEMS: list[dict[str, Any]] = [
    {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "a"}], "encrypted_content": "a"}
    | {"content": [{"type": "reasoning_text", "text": "a"}]},
    {"type": "message", "id": "m", "role": "assistant", "status": "completed"}
    | {
        "content": [
            {"type": "output_text", "text": "a", "annotations": [{"title": "a"}], "logprobs": TOKENS["content"]}
        ]
    },
    {"type": "function_call", "id": "f", "call_id": "c", "name": "a", "arguments": "{}", "status": "completed"},
    {"type": "custom_tool_call", "id": "f", "call_id": "c", "name": "a", "input": "a"},
    {"type": "mcp_call", "id": "f", "name": "a", "arguments": "{}", "output": "a", "server_label": "a"},
]
RESPONSE: Mapping[str, Any] = {"id": "r", "object": "response", "model": "m", "status": "completed", "output": ITEMS}
BLOCKS: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": "a", "signature": "a"},
    {"type": "text", "text": "a", "citations": [{"cited_text": "a"}]},
    {"type": "tool_use", "id": "t", "name": "a", "input": {"a": ["b"]}},
]
WHOLE: Mapping[Api, Mapping[str, Any]] = {
    Api.CHAT: {
        **CHAT_HEAD,
        "choices": [{"index": 0, "message": CHAT_PART, "finish_reason": "stop", "logprobs": TOKENS}],
        "yet_unknown": "a",
    },
    Api.COMPLETIONS: {
        **CHAT_HEAD,
        "choices": [
            {"index": 0, "text": "a", "finish_reason": "stop", "stop_reason": None, "prompt_text": "a"}
            | {"logprobs": {"tokens": ["a"], "token_logprobs": [-1.0], "top_logprobs": [{"a": -1.0}]}}
            | {"prompt_logprobs": [None, {"7": {"logprob": -1.0, "decoded_token": "a"}}]}
        ],
    },
    Api.RESPONSES: {**RESPONSE, "yet_unknown": "a"},
    Api.MESSAGES: {"id": "m", "type": "message", "role": "assistant", "content": BLOCKS, "stop_reason": "end_turn"},
    Api.CLASSIFY: {"id": "c", "data": [{"index": 0, "label": "a", "probs": [0.1]}]},
}
EVENTS: list[tuple[Api, Mapping[str, Any]]] = [
    (
        Api.CHAT,
        {**CHAT_HEAD, "choices": [{"index": 0, "delta": CHAT_PART, "logprobs": TOKENS, "finish_reason": None}]},
    ),
    (Api.COMPLETIONS, WHOLE[Api.COMPLETIONS]),
    *(
        (Api.RESPONSES, one)
        for one in (
            {"type": "response.created", "response": RESPONSE},
            {"type": "response.output_item.done", "output_index": 0, "item": ITEMS[1]},
            {"type": "response.output_item.added", "output_index": 0, "item": ITEMS[2]},
            {"type": "response.content_part.done", "part": {"type": "output_text", "text": "a"}},
            {"type": "response.output_text.delta", "delta": "a", "logprobs": TOKENS["content"]},
            {"type": "response.reasoning_text.delta", "delta": "a"},
            {"type": "response.reasoning_summary_text.delta", "delta": "a"},
            {"type": "response.refusal.delta", "delta": "a"},
            {"type": "response.function_call_arguments.delta", "delta": "a"},
            {"type": "response.custom_tool_call_input.delta", "delta": "a"},
            {"type": "response.output_text.done", "text": "a"},
            {"type": "response.yet_unknown", "any": {"a": "b"}},
        )
    ),
    *((Api.MESSAGES, {"type": "content_block_start", "index": 0, "content_block": one}) for one in BLOCKS),
    *(
        (Api.MESSAGES, {"type": "content_block_delta", "index": 0, "delta": one})
        for one in (
            {"type": "text_delta", "text": "a"},
            {"type": "thinking_delta", "thinking": "a"},
            {"type": "signature_delta", "signature": "a"},
            {"type": "input_json_delta", "partial_json": "a"},
            {"type": "citations_delta", "citation": {"cited_text": "a"}},
        )
    ),
    (Api.MESSAGES, {"type": "message_start", "message": {"id": "m", "content": BLOCKS}}),
]
Path = tuple[str | int, ...]


def leaves(value: object, path: Path = ()) -> Iterator[Path]:
    """Yield the place of each text; of a mapping from tokens also its keys'."""
    if isinstance(value, str):
        yield path
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from leaves(inner, (*path, name))
            if isinstance(inner, float) and "top_logprobs" in path and "token" not in value:
                yield (*path, "key of", name)
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from leaves(inner, (*path, at))


def planted(sample: Mapping[str, Any], path: Path) -> Any:  # noqa: ANN401 - any JSON
    """Return a copy with the secret there."""
    found: Any = deepcopy(sample)
    value, (*inner, last) = found, path
    for step in inner:
        if step == "key of":
            value[SECRET] = value.pop(last)
            return found
        value = value[step]
    value[last] = f"it is {SECRET} so"
    return found


def guarded(api: Api, sample: Any, *, is_stream: bool) -> str:  # noqa: ANN401
    """Return what a guard lets out of an answer or event."""
    body = json.dumps(sample, separators=(",", ":")).encode()
    answered = Answered(api, is_stream=is_stream)
    if is_stream:
        named = b"event: %b\n" % sample["type"].encode() if "type" in sample else b""
        return answered.stream([named + b"data: " + body + b"\n\n"]).reply.body.decode()
    answered.guard.start(200, [])
    answered.guard.write(body)
    answered.guard.finish()
    return answered.reply.body.decode()


@pytest.mark.parametrize(("api", "sample"), [*WHOLE.items(), *EVENTS])
async def test_no_field_of_an_answer_passes_unjudged(api: Api, sample: Mapping[str, Any]) -> None:
    """A secret in any text, of a whole answer or an event, does not leave; only the engine's own words are skipped."""
    is_stream = (api, sample) not in WHOLE.items()
    assert SECRET not in guarded(api, sample, is_stream=is_stream)
    passed = {path for path in leaves(sample) if SECRET in guarded(api, planted(sample, path), is_stream=is_stream)}
    assert {path[-1] for path in passed} <= ENGINES
    assert len(passed) < len(list(leaves(sample)))


@pytest.mark.parametrize("is_stream", [True, False])
@pytest.mark.parametrize("name", ["content", "reasoning", "text"])
@pytest.mark.parametrize("at", [0, 4, 12, len(SECRET) - 1])
async def test_a_stop_string_goes_on_with_what_it_ended(name: str, at: int, is_stream: bool) -> None:
    """A secret that a stop string cuts, or is, does not leave: neither half, also in a whole answer."""
    api, part = (Api.COMPLETIONS if name == "text" else Api.CHAT), "delta" if is_stream else "message"
    own = {name: f"Key {SECRET[:at]}"}
    said: dict[str, object] = {**own} if name == "text" else {part: own}
    choice = {"index": 0, "finish_reason": "stop", "stop_reason": SECRET[at:], **said}
    shown = guarded(api, {**CHAT_HEAD, "choices": [choice]}, is_stream=is_stream)
    assert f'"{SECRET[at:]}"' not in shown
    assert '"content_filter"' in shown
    assert not at or SECRET[:at] not in shown
    assert is_stream or '"Key "' in shown


@pytest.mark.parametrize("is_stream", [True, False])
async def test_a_masked_stop_string_is_masked_in_both_halves(is_stream: bool) -> None:
    """An address over the end of a text becomes stars there and in the stop string; a harmless one stays."""
    said = {"delta" if is_stream else "message": {"content": "to jane@exam"}}
    for stop, told in (("ple.com", "*******"), ("so", "so")):
        choice = {"index": 0, "finish_reason": "stop", "stop_reason": stop, **said}
        shown = json.loads(
            guarded(Api.CHAT, {**CHAT_HEAD, "choices": [choice]}, is_stream=is_stream).removeprefix("data: ")
        )
        content = "to *********" if stop != "so" else "to jane@exam"
        assert shown["choices"] == [{**choice, next(iter(said)): {"content": content}, "stop_reason": told}]


@pytest.mark.parametrize(
    "data",
    [
        b"data: [1]\n\n",
        b'data: "AKIA"\n\n',
        b"data: {\n\n",
        b'data: {"a":1}\ndata: {"b":2}\n\n',
        b"id: AKIA\ndata: {}\n\n",
        b"AKIA\n\n",
        b'data: {"choices":[{"index":0,"delta":{"content":"\\ud83d"}}]}\n\n',
        b'data: {"choices":["AKIA"]}\n\n',
    ],
)
async def test_what_cannot_be_read_ends_the_answer(data: bytes) -> None:
    """An event in another form is no way around a rule."""
    answered = Answered(Api.CHAT).stream([data])
    assert b"AKIA" not in answered.reply.body
    assert answered.reply.body.endswith(b"data: [DONE]\n\n")
    assert answered.error is not None


async def test_an_engines_comments_stay_behind() -> None:
    """A comment of the engine is no text of the answer, and is dropped; the event beside it leaves."""
    said = event({"content": "fine. "})
    assert Answered(Api.CHAT).stream([b": AKIA\n\n", b": AKIA\n" + said]).reply.body == said


@pytest.mark.parametrize("text", ['{"to": "x\\n' + SECRET + ' y"}', '{"to": "\\u0041\\u004bIAIOSFODNN7EXAMPLE y"}'])
@pytest.mark.parametrize("size", [1, 3, 7])
async def test_escapes_of_json_hide_nothing(text: str, size: int) -> None:
    """A text is judged as it is written and as JSON reads it, however it is cut."""
    parts = [text[at : at + size] for at in range(0, len(text), size)]
    as_text = Answered(Api.CHAT).stream([event({"content": part}) for part in parts])
    calls = [event({"tool_calls": [{"index": 0, "function": {"arguments": part}}]}) for part in parts]
    as_call = Answered(Api.CHAT).stream(calls)
    for answered in (as_text, as_call):
        assert "IOSF" not in answered.reply.body.decode()
        assert answered.error is not None


async def test_what_follows_the_reasoning_does_not_wait_for_its_last_word() -> None:
    """The reasoning ends with the first word of the answer, and a tool call passes the last word before it."""
    answered = Answered(Api.CHAT)
    answered.guard.start(200, [])
    for delta in ({"reasoning": "thus so"}, {"content": "Yes. Calling"}):
        answered.guard.write(event(delta))
    assert (answered.said(0, "reasoning"), answered.said()) == ("thus so", "")
    answered.guard.write(event({"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}))
    assert b'"arguments"' in answered.reply.body


async def test_the_first_visible_token_is_when_text_leaves() -> None:
    """Neither a role nor a held text is one."""
    answered = Answered(Api.CHAT)
    answered.guard.start(200, [])
    for one in (event({"role": "assistant"}), event({"content": "AKIA"})):
        answered.guard.write(one)
    assert answered.timings.visible_at is None
    answered.guard.write(event({"content": " so"}))
    assert answered.timings.visible_at == 0.0


async def test_a_texts_end_waits_for_what_its_choice_still_holds() -> None:
    """The event that ends a choice never passes held text of another field."""
    last = event({"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}, 0, "tool_calls")
    answered = Answered(Api.CHAT).stream([event({"content": SECRET}), last])
    ends = [choice["finish_reason"] for one in answered.events for choice in one["choices"]]
    assert ends == ["content_filter"]


def infer_answer(texts: list[bytes]) -> bytes:
    data = joined(texts)
    numbers = {"name": "score", "datatype": "FP32", "shape": [1], "parameters": {"binary_data_size": 4}}
    own = {"name": "text", "datatype": "BYTES", "shape": [len(texts)], "parameters": {"binary_data_size": len(data)}}
    return json.dumps({"outputs": [numbers, own]}).encode() + b"\0\0\0\0" + data


async def test_texts_in_tensors_are_masked_in_place() -> None:
    """A match in a tensor becomes stars of as many bytes, also by a rule that blocks; the rest stays as it is."""
    texts = [b"fine \xff", "Übermail jane@example.com".encode(), b"so " + SECRET.encode()]
    answered = Answered(Api.INFER, is_stream=False)
    answered.guard.start(200, [])
    answered.guard.write(infer_answer(texts))
    answered.guard.finish()
    shown = [texts[0], "Übermail ".encode() + b"*" * 16, b"so " + b"*" * len(SECRET)]
    assert answered.reply.body == infer_answer(shown)
    assert answered.error is not None


@pytest.mark.parametrize("data", [b"", b"{}", b'{"outputs": 1}', infer_answer([b"abc"])[:-1]])
def test_tensors_in_another_form_are_refused(data: bytes) -> None:
    """What can't be read as tensors is a fault, not a pass."""
    with pytest.raises(ValueError):  # noqa: PT011 - any
        list(tensors.texts(data))


def running(api: Api, field: str, text: str) -> dict[str, Any]:
    """Return an event with one running text."""
    delta = {field: text}
    if api is Api.MESSAGES:
        return {"type": "content_block_delta", "index": 0, "delta": delta}
    if api is Api.RESPONSES:
        return {"type": f"response.{field}.delta", "output_index": 0, "delta": text, "logprobs": []}
    if field == "arguments":
        delta = {"tool_calls": [{"index": 1, "function": delta}]}  # type: ignore[dict-item]
    choice = {"index": 1, **(delta if api is Api.COMPLETIONS else {"delta": delta}), "finish_reason": None}
    return {"id": "a:", "model": text if len(text) > 2 else "m", "choices": [choice]}


@pytest.mark.parametrize(
    ("api", "field"),
    [
        *((Api.CHAT, field) for field in ("content", "reasoning", "arguments", "refusal")),
        (Api.COMPLETIONS, "text"),
        (Api.RESPONSES, "output_text"),
        (Api.MESSAGES, "thinking"),
    ],
)
@given(said=st.lists(st.text(max_size=4), min_size=2, max_size=12), is_ascii=st.booleans())
def test_an_event_of_a_known_form_reads_as_if_it_were_parsed(
    api: Api, field: str, said: list[str], is_ascii: bool
) -> None:
    """Whatever its text is and however it is escaped; what is more or less than such an event is no known form."""
    forms, known = Forms(api, ()), 0
    for text in said:
        data = json.dumps(running(api, field, text), ensure_ascii=is_ascii, separators=(",", ":")).encode()
        whole, wanted = b"data: " + data + sse.END, texts.in_event(api, data)
        if (found := forms.known(whole)) is not None:
            key, read, said_beside = found
            assert msgspec.structs.replace(said_beside, texts=[(key, read, True)]) == wanted
            known += 1
        assert forms.read(whole, data) == wanted
        for other in (whole + whole, whole[:-3] + sse.END, whole.replace(b'":', b'":"", "x":'), b": x\n" + whole):
            assert forms.known(other) is None
    short = [text for text in said if 0 < len(text) <= 2]
    assert known >= len(short) - 1
