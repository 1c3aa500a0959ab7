import struct
from base64 import b64encode
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.errors import BadRequest, InvalidField, MalformedBody
from penstock.domain.serving.request import JSON_APIS, Api
from penstock.domain.tenancy.cost import UNBOUNDED
from penstock.gateway.openai import parse as edge
from penstock.gateway.openai.depth import MAX_DEPTH
from penstock.gateway.openai.parse import parse

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
INPUTS: dict[Api, dict[str, object]] = {
    Api.CHAT: {"messages": [{"role": "user", "content": "hi"}]},
    Api.COMPLETIONS: {"prompt": "hi"},
    Api.EMBEDDINGS: {"input": ["a", "b"]},
    Api.CLASSIFY: {"input": ["a", "b"]},
    Api.RESPONSES: {"input": "hi"},
    Api.MESSAGES: {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 9},
}
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def told(api: Api = Api.CHAT, **changes: object) -> edge.Parsed:
    return parse(api, msgspec.json.encode({"model": "m", **INPUTS[api], **changes}))


@pytest.mark.parametrize("api", JSON_APIS)
def test_a_plain_request_of_each_api_is_taken_as_it_is(api: Api) -> None:
    """What the caller sent goes on unchanged."""
    parsed = told(api)
    assert parsed.body == {"model": "m", **INPUTS[api]}
    assert (parsed.model, parsed.stream, parsed.include_usage) == ("m", False, False)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"x"',
        b"{} {}",
        b'{"model": "\xff"}',
        b'{"model": "\\ud800"}',
        b'{"model": NaN}',
        b'{"a": 1e999}',
        b"\xef\xbb\xbf{}",
        b"[" * 100_000,
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        b'{"a": ' + b"9" * 5000 + b"}",
        b"\x1f\x8b\x08\x00gzip",
    ],
    ids=range(15),
)
def test_what_is_no_json_object_is_malformed(raw: bytes) -> None:
    """Broken, truncated, foreign and hostile bodies are refused alike, without a crash."""
    with pytest.raises(MalformedBody):
        parse(Api.CHAT, raw)


def test_depth_is_bounded_and_width_is_not() -> None:
    """A deep body is refused, a wide one with as many brackets passes."""
    deep: object = 1
    for _ in range(MAX_DEPTH):
        deep = [deep]
    with pytest.raises(MalformedBody, match="nested"):
        told(metadata=deep)
    wide: list[object] = [[] for _ in range(10 * MAX_DEPTH)]
    assert told(metadata=wide).body["metadata"] == wide


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"model": None}, "model"),
        ({"model": ""}, "model"),
        ({"model": 3}, "model"),
        ({"model": "m" * 300}, "model"),
        ({"messages": None}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": [3]}, "messages[0]"),
        ({"messages": [{"content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 3}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [3]}]}, "messages[0].content[0]"),
        ({"messages": [{"role": "user", "content": "x"}] * 5000}, "messages"),
        ({"stream": "yes"}, "stream"),
        ({"stream": 1}, "stream"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 10**30}, "max_tokens"),
        ({"max_tokens": "5"}, "max_tokens"),
        ({"max_tokens": 5.0}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"max_completion_tokens": -5}, "max_completion_tokens"),
        ({"n": 0}, "n"),
        ({"n": 1000}, "n"),
        ({"best_of": 2, "n": 3}, "best_of"),
        ({"temperature": "hot"}, "temperature"),
        ({"top_p": True}, "top_p"),
        ({"seed": []}, "seed"),
        ({"stream_options": []}, "stream_options"),
        ({"stream_options": {}}, "stream_options"),
        ({"stream": True, "stream_options": {"include_usage": 1}}, "stream_options.include_usage"),
        ({"prompt_embeds": "gASV"}, "prompt_embeds"),
        ({"chat_template": "{{ 1 }}"}, "chat_template"),
    ],
)
def test_a_wrong_field_is_named(changes: dict[str, object], param: str) -> None:
    """The refusal tells the caller which field to change."""
    with pytest.raises(InvalidField) as caught:
        told(Api.CHAT, **changes)
    assert caught.value.param == param


@pytest.mark.parametrize(
    "value", [None, [], 3, [""] * 3000, ["a", 1], [1, "a"], [-1], [[]], [[1], "a"], [[1], [True]], {}]
)
@pytest.mark.parametrize(("api", "name"), [(Api.COMPLETIONS, "prompt"), (Api.EMBEDDINGS, "input")])
def test_prompts_of_other_kinds_are_refused(api: Api, name: str, value: object) -> None:
    """Text, token ids and lists of one of these are the only prompts."""
    with pytest.raises(InvalidField) as caught:
        told(api, **{name: value})
    assert str(caught.value.param).partition("[")[0] == name


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"input": None}, "input"),
        ({"input": [3]}, "input[0]"),
        ({"input": [{}] * 5000}, "input"),
    ],
)
def test_inputs_of_responses_are_text_or_items(changes: dict[str, object], param: str) -> None:
    """An input is needed also where stored turns come before it."""
    with pytest.raises(InvalidField) as caught:
        told(Api.RESPONSES, **changes)
    assert caught.value.param == param


def test_messages_need_a_bound() -> None:
    """Anthropic's API requires max_tokens, where an answer is wanted."""
    unbounded = told(Api.MESSAGES, max_tokens=None).cost
    with pytest.raises(InvalidField, match="required"):
        edge.check_bounded(Api.MESSAGES, unbounded)
    edge.check_bounded(Api.CHAT, unbounded)
    edge.check_bounded(Api.MESSAGES, told(Api.MESSAGES).cost)


@pytest.mark.parametrize(
    ("api", "changes", "tokens"),
    [
        (Api.CHAT, {}, UNBOUNDED),
        (Api.CHAT, {"n": 3, "use_beam_search": True, "max_tokens": 5}, 15),
        (Api.CHAT, {"max_tokens": 7}, 7),
        (Api.CHAT, {"max_tokens": 7, "max_completion_tokens": 5}, 5),
        (Api.CHAT, {"max_tokens": 7, "n": 3}, 21),
        (Api.COMPLETIONS, {}, 16),
        (Api.COMPLETIONS, {"max_tokens": None}, 16),
        (Api.COMPLETIONS, {"prompt": ["a", "b", "c"], "max_tokens": 10, "n": 4, "best_of": 4}, 120),
        (Api.COMPLETIONS, {"prompt": [1, 2, 3], "max_tokens": 10}, 10),
        (Api.COMPLETIONS, {"prompt": [[1], [2, 3]], "max_tokens": 10}, 20),
        (Api.EMBEDDINGS, {}, 0),
        (Api.RESPONSES, {"max_output_tokens": 8}, 8),
        (Api.RESPONSES, {}, UNBOUNDED),
        (Api.MESSAGES, {}, 9),
    ],
)
def test_output_is_counted_in_its_worst_case(api: Api, changes: dict[str, object], tokens: int) -> None:
    """Choices and prompts multiply what a request may cost; silence is no bound, and null is silence."""
    assert told(api, **changes).cost.output_tokens == tokens


DROPPED = frozenset(
    """
    priority cache_salt request_id session_id
    kv_transfer_params ec_transfer_params vllm_xargs mm_payload return_mm_kwargs
    """.split()
)


def test_identity_and_the_engines_insides_are_dropped() -> None:
    """A client can't choose its priority, its cache or the engine's internals; its own end-user id stays."""
    smuggled = dict.fromkeys(DROPPED, "x")
    parsed = told(Api.CHAT, **smuggled, user="u")
    assert parsed.body == {**CHAT, "user": "u"}
    assert parsed.told == tuple(sorted({*DROPPED, "user"}))


def test_the_last_of_two_equal_keys_counts_and_goes_on() -> None:
    """What is checked is what is sent: no repeated key reaches a second parser."""
    parsed = parse(Api.CHAT, b'{"model":"a","model":"b","messages":[{"role":"user","content":""}]}')
    assert parsed.model == parsed.body["model"] == "b"


def test_usage_is_shown_when_asked() -> None:
    """The caller's wish for usage in a stream is kept."""
    assert told(stream=True, stream_options={"include_usage": True}).include_usage
    assert not told(stream=True).include_usage
    assert not told(stream=True, stream_options={"include_usage": True}).usage_each
    each = told(stream=True, stream_options={"continuous_usage_stats": True})
    assert each.include_usage
    assert each.usage_each


@given(st.binary(max_size=200))
def test_no_bytes_can_crash_it(raw: bytes) -> None:
    """Any bytes at all yield a request or a refusal."""
    for api in JSON_APIS:
        with suppress(BadRequest):
            parse(api, raw)


@given(
    st.sampled_from(JSON_APIS),
    st.dictionaries(
        st.sampled_from(
            [
                *DROPPED,
                "temperature",
                "seed",
                "model",
                "messages",
                "input",
                "prompt",
                "n",
                "best_of",
                "max_tokens",
                "stream",
                "stream_options",
                "x",
            ]
        ),
        json_values,
        max_size=6,
    ),
)
def test_no_json_can_crash_it(api: Api, changes: dict[str, object]) -> None:
    """Any JSON object yields a request that can be sent on, or a refusal that names a field."""
    raw = msgspec.json.encode({"model": "m", **INPUTS[api], **changes})
    try:
        parsed = parse(api, raw)
    except InvalidField as error:
        named = error.param
    else:
        assert msgspec.json.decode(msgspec.json.encode(parsed.body)) == parsed.body
        assert not parsed.body.keys() & DROPPED
        assert parsed.cost.output_tokens >= 0
        named = "nothing"
    assert named


@pytest.mark.parametrize("api", [Api.CLASSIFY, Api.EMBEDDINGS])
def test_an_image_costs_its_pixels_and_not_its_bytes(api: Api) -> None:
    """A megabyte of photograph costs less than a kilobyte of bomb; text costs its bytes, as ever."""

    def work(width: int, rest: int) -> int:
        head = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, width)
        return told(api, input=["data:image/png;base64," + b64encode(head + bytes(rest)).decode()]).cost.decode_tokens

    assert work(6000, 1 << 10) >= 6000 * 6000 // 1024 > 10 * work(800, 1 << 20)
    assert told(api, input="x" * (1 << 20)).cost.body_bytes > 1 << 20
