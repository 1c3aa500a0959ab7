"""Fields that need others, exclude them, or have no effect without them; tools and the choice among them."""

from typing import Any

import msgspec
import pytest

from penstock.domain.errors import InvalidField
from penstock.domain.serving.request import Api
from penstock.gateway.openai.fields import CHAT_PARTS, MESSAGES_PARTS, RESPONSES_PARTS, Parts
from penstock.gateway.openai.parse import Parsed, parse
from penstock.gateway.openai.verdicts import ANY, TABLE, Field
from penstock.worker.engines import vllm
from tests.support.samples.least_bodies import BODIES

OBJECT: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}}
LOOSE: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer", "multipleOf": 3}}}
UNMADE: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string", "pattern": r"\bx"}}}


def sent(api: Api, **changes: Any) -> Parsed:  # noqa: ANN401  any JSON
    return parse(api, msgspec.json.encode({"model": "m", **BODIES[api], **changes}))


def function(name: str = "f", schema: Any = None, **more: Any) -> dict[str, Any]:  # noqa: ANN401  any JSON
    return {"type": "function", "function": {"name": name, "parameters": schema or OBJECT, **more}}


def schema(given: Any) -> dict[str, Any]:  # noqa: ANN401  any JSON
    return {"type": "json_schema", "json_schema": {"name": "s", "schema": given}}


def choice(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


TOOL: dict[str, Any] = {"name": "f", "input_schema": {"type": "object"}}


def begun(content: Any, **more: Any) -> dict[str, Any]:  # noqa: ANN401  any JSON
    """Return a Messages body with the beginning of an answer."""
    return {"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": content}], **more}


CALL: dict[str, Any] = {"type": "function", "id": "c", "function": {"name": "f", "arguments": "{}"}}
REFUSED: list[tuple[Api, dict[str, Any], str]] = [
    (Api.CHAT, {"min_tokens": 9, "max_tokens": 4}, "min_tokens"),
    (Api.CHAT, {"min_tokens": 9, "max_tokens": 99, "max_completion_tokens": 4}, "min_tokens"),
    (Api.COMPLETIONS, {"min_tokens": 9, "max_tokens": 4}, "min_tokens"),
    (Api.CHAT, {"continue_final_message": True}, "continue_final_message"),
    (Api.CHAT, {"response_format": {"type": "json_schema"}}, "response_format.json_schema.schema"),
    (
        Api.CHAT,
        {"response_format": {"type": "json_schema", "json_schema": {"name": "s"}}},
        "response_format.json_schema.schema",
    ),
    (Api.CHAT, {"response_format": schema({"not": {}})}, "response_format.json_schema.schema.not"),
    (
        Api.CHAT,
        {"response_format": schema({"type": "object", "properties": {"a": {"type": "number", "multipleOf": 3}}})},
        "response_format.json_schema.schema.properties.a.multipleOf",
    ),
    (Api.CHAT, {"structured_outputs": {"json": {"anyOf": []}}}, "structured_outputs.json.anyOf"),
    (
        Api.CHAT,
        {"structured_outputs": {"choice": ["a"]}, "tools": [function()], "tool_choice": "required"},
        "structured_outputs",
    ),
    (Api.CHAT, {"structured_outputs": {"choice": []}}, "structured_outputs.choice"),
    (Api.CHAT, {"structured_outputs": {"choice": ["a"]}, "response_format": schema({})}, "structured_outputs"),
    (
        Api.COMPLETIONS,
        {"structured_outputs": {"regex": "a"}, "response_format": {"type": "json_object"}},
        "structured_outputs",
    ),
    (
        Api.RESPONSES,
        {"structured_outputs": {"regex": "a"}, "text": {"format": {"type": "json_object"}}},
        "structured_outputs",
    ),
    (Api.MESSAGES, begun(" "), "messages[1].content"),
    (Api.MESSAGES, begun(""), "messages[1].content"),
    (Api.MESSAGES, begun([{"type": "tool_use", "id": "c", "name": "f", "input": {}}]), "messages[1].content"),
    (Api.MESSAGES, begun("{", tools=[TOOL], tool_choice={"type": "any"}), "messages[1].content"),
    (
        Api.MESSAGES,
        begun("{", output_config={"format": {"type": "json_schema", "schema": {"type": "object"}}}),
        "messages[1].content",
    ),
    (Api.COMPLETIONS, {"prompt": ""}, "prompt"),
    (Api.COMPLETIONS, {"max_completion_tokens": 4}, "max_completion_tokens"),
    (Api.MESSAGES, {"stop": "x"}, "stop"),
    (Api.CHAT, {"metadata": {"a": 1}}, "metadata.a"),
    (Api.COMPLETIONS, {"n": 2, "best_of": 1}, "best_of"),
    (Api.COMPLETIONS, {"n": 3, "best_of": 2}, "best_of"),
    (Api.CHAT, {"structured_outputs": {"regex": "(?=a)b"}}, "structured_outputs.regex"),
    (
        Api.RESPONSES,
        {"text": {"format": {"type": "json_schema", "name": "s", "schema": {"not": {}}}}},
        "text.format.schema.not",
    ),
    (
        Api.MESSAGES,
        {"output_config": {"format": {"type": "json_schema", "schema": {"not": {}}}}},
        "output_config.format.schema.not",
    ),
    (Api.CHAT, {"tool_choice": "required"}, "tool_choice"),
    (Api.RESPONSES, {"tool_choice": "required"}, "tool_choice"),
    (Api.MESSAGES, {"tool_choice": {"type": "any"}}, "tool_choice"),
    (Api.CHAT, {"tools": [function(), function()]}, "tools[1].function.name"),
    (Api.CHAT, {"tools": [function("a b!")]}, "tools[0].function.name"),
    (Api.CHAT, {"tools": [function()], "tool_choice": choice("g")}, "tool_choice.function.name"),
    (
        Api.MESSAGES,
        {"tools": [{"name": "f", "input_schema": OBJECT}], "tool_choice": {"type": "tool", "name": "g"}},
        "tool_choice.name",
    ),
    (Api.CHAT, {"tools": [function("f", LOOSE, strict=True)]}, "tools[0].function.parameters.properties.a.multipleOf"),
    (
        Api.CHAT,
        {"tools": [function("f", LOOSE)], "tool_choice": "required"},
        "tools[0].function.parameters.properties.a.multipleOf",
    ),
    (Api.CHAT, {"tools": [function("f", UNMADE)]}, "tools[0].function.parameters.properties.a.pattern"),
    (
        Api.MESSAGES,
        {"tools": [{"name": "f", "input_schema": {"type": "string"}}]},
        "tools[0].input_schema.type",
    ),
    (Api.MESSAGES, {"tools": [{"name": "f", "input_schema": "x"}]}, "tools[0].input_schema"),
    (Api.MESSAGES, {"tools": [{"name": "f", "input_schema": [1]}]}, "tools[0].input_schema"),
    (Api.CHAT, {"tools": [function("f", {"type": "array"})]}, "tools[0].function.parameters.type"),
    (
        Api.RESPONSES,
        {"tools": [{"type": "function", "name": "f", "parameters": {"type": ["object", "null"]}}]},
        "tools[0].parameters.type",
    ),
    (Api.CHAT, {"structured_outputs": {"json": {}, "regex": "a"}}, "structured_outputs"),
    (Api.CHAT, {"structured_outputs": {"_backend": "x"}}, "structured_outputs._backend"),
    (Api.CHAT, {"tool_choice": {"type": "custom", "custom": {"name": "f"}}}, "tool_choice.type"),
    (Api.MESSAGES, {"thinking": {"type": "enabled"}}, "thinking.budget_tokens"),
    (Api.MESSAGES, {"thinking": {"type": "enabled", "budget_tokens": 1023}}, "thinking.budget_tokens"),
    (
        Api.MESSAGES,
        {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 1024},
        "thinking.budget_tokens",
    ),
    (Api.CHAT, {"messages": [{"role": "sytem", "content": "x"}]}, "messages[0].role"),
    (Api.CHAT, {"messages": [{"role": "user"}]}, "messages[0].content"),
    (Api.CHAT, {"messages": [{"role": "tool", "content": "x"}]}, "messages[0].tool_call_id"),
    (
        Api.CHAT,
        {"messages": [{"role": "user", "content": "x", "tool_calls": [CALL]}]},
        "messages[0].tool_calls",
    ),
    (Api.CHAT, {"messages": [{"role": "user", "content": "x", "tool_call_id": "c"}]}, "messages[0].tool_call_id"),
    (Api.MESSAGES, {"stop_sequences": ["a"] * 33}, "stop_sequences"),
    (Api.CHAT, {"stop": ["a"] * 5}, "stop"),
    (Api.COMPLETIONS, {"max_tokens": 0}, "max_tokens"),
    (Api.CHAT, {"stop": ""}, "stop"),
    (Api.CHAT, {"stop": [""]}, "stop[0]"),
    (Api.MESSAGES, {"stop_sequences": [""]}, "stop_sequences[0]"),
    (Api.CHAT, {"bad_words": [""]}, "bad_words[0]"),
    (Api.CHAT, {"min_p": 2}, "min_p"),
    (Api.CHAT, {"repetition_penalty": 0}, "repetition_penalty"),
    (Api.CHAT, {"frequency_penalty": 2.1}, "frequency_penalty"),
    (Api.CHAT, {"logit_bias": {"7": 101}}, "logit_bias.7"),
    (Api.CHAT, {"logit_bias": {"7": "x"}}, "logit_bias.7"),
    (Api.CHAT, {"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    (Api.MESSAGES, {"temperature": 1.5}, "temperature"),
    (Api.EMBEDDINGS, {"dimensions": 0}, "dimensions"),
    (Api.CHAT, {"metadata": "x"}, "metadata"),
    (Api.CHAT, {"metadata": {str(i): "v" for i in range(17)}}, "metadata"),
    (Api.CHAT, {"metadata": {"k": "v" * 513}}, "metadata.k"),
    (
        Api.RESPONSES,
        {"input": [{"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}]},
        "input[0].content[0].type",
    ),
]


@pytest.mark.parametrize(("api", "changes", "param"), REFUSED)
def test_a_fault_between_fields_names_the_field_and_its_path(api: Api, changes: dict[str, Any], param: str) -> None:
    """Before any engine has seen it."""
    with pytest.raises(InvalidField) as caught:
        sent(api, **changes)
    assert caught.value.param == param


TOLD: list[tuple[Api, dict[str, Any], str]] = [
    (Api.CHAT, {"max_tokens": 4, "max_completion_tokens": 5}, "max_tokens"),
    (Api.CHAT, {"length_penalty": 2.0}, "length_penalty"),
    (Api.EMBEDDINGS, {"embed_dtype": "float16"}, "embed_dtype"),
    (Api.RESPONSES, {"top_logprobs": 2}, "top_logprobs"),
    (Api.RESPONSES, {"truncation": "auto"}, "truncation=auto"),
    (Api.RESPONSES, {"tool_choice": "none"}, "tool_choice"),
    (Api.CHAT, {"tools": [function("f", LOOSE)]}, "tools[].function.parameters"),
    (Api.MESSAGES, {"tools": [{"name": "f", "input_schema": LOOSE}]}, "tools[].input_schema"),
    (
        Api.MESSAGES,
        {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 2000},
        "thinking.budget_tokens",
    ),
]


@pytest.mark.parametrize(("api", "changes", "told"), TOLD)
def test_a_field_without_effect_beside_others_is_told(api: Api, changes: dict[str, Any], told: str) -> None:
    """Taken, and named in the answer's header."""
    assert told in sent(api, **changes).told


SILENT: list[tuple[Api, dict[str, Any]]] = [
    (Api.CHAT, {"max_tokens": 4}),
    (Api.CHAT, {"length_penalty": 2.0, "use_beam_search": True}),
    (Api.EMBEDDINGS, {"embed_dtype": "float16", "encoding_format": "base64"}),
    (Api.RESPONSES, {"top_logprobs": 2, "include": ["message.output_text.logprobs"]}),
    (Api.CHAT, {"tools": [function("f", LOOSE)], "tool_choice": "none"}),
    (Api.CHAT, {"tools": [function(), function("g")], "tool_choice": choice("g")}),
    (Api.CHAT, {"min_tokens": 4, "max_tokens": 4}),
    (Api.RESPONSES, {"tool_choice": "auto"}),
    (Api.MESSAGES, {"tools": [{"name": "f", "input_schema": {"properties": {}}}]}),
    (Api.MESSAGES, {"thinking": {"type": "adaptive"}}),
    (Api.MESSAGES, {"stop_sequences": ["a"] * 32}),
    (Api.COMPLETIONS, {"max_tokens": 0, "echo": True, "logprobs": 0}),
    (Api.CHAT, {"messages": [{"role": "assistant", "tool_calls": []}, {"role": "user", "content": "x"}]}),
]


@pytest.mark.parametrize(("api", "changes"), SILENT)
def test_a_field_with_effect_is_not_told(api: Api, changes: dict[str, Any]) -> None:
    """The same fields, with what they need."""
    assert sent(api, **changes).told == ()


def test_an_engine_never_sees_a_budget() -> None:
    """It would refuse any: no engine here has a parser that tells where the reasoning ends."""
    body = sent(Api.MESSAGES, thinking={"type": "enabled", "budget_tokens": 1024}, max_tokens=2000).body
    assert body["thinking"] == {"type": "adaptive"}


PARTS: dict[str, dict[str, Any]] = {
    "text": {"text": "x"},
    "image_url": {"image_url": {"url": "data:,"}},
    "input_audio": {"input_audio": {"data": "", "format": "wav"}},
    "audio_url": {"audio_url": {"url": "data:,"}},
    "video_url": {"video_url": {"url": "data:,"}},
    "refusal": {"refusal": "x"},
    "thinking": {"thinking": "x"},
    "image": {"source": {"type": "base64", "media_type": "image/png", "data": ""}},
    "tool_use": {"id": "c", "name": "f", "input": {}},
    "tool_result": {"tool_use_id": "c", "content": "x"},
    "redacted_thinking": {"data": "x"},
    "input_text": {"text": "x"},
    "input_image": {"image_url": "data:,"},
    "output_text": {"text": "x", "annotations": []},
}
WHERE = {
    Api.CHAT: ("messages", CHAT_PARTS),
    Api.RESPONSES: ("input", RESPONSES_PARTS),
    Api.MESSAGES: ("messages", MESSAGES_PARTS),
}
ROLES = [(api, role, parts) for api, (_, parts) in WHERE.items() for role in parts]


def served(api: Api) -> set[str]:
    """Return the kinds of parts that the table serves in any message."""
    items = TABLE[api].kinds[ANY].fields[WHERE[api][0]].items
    assert items is not None
    found = {name for kind in items.kinds.values() if not kind.says for name in kinds_of(kind.fields.get("content"))}
    return found - {ANY, "reasoning_text"}


def kinds_of(field: Field | None) -> set[str]:
    items = None if field is None else field.items
    return set() if items is None else {name for name, kind in items.kinds.items() if not kind.says}


@pytest.mark.parametrize(("api", "role", "parts"), ROLES)
def test_a_part_in_a_wrong_role_is_refused_with_its_path(api: Api, role: str, parts: Parts) -> None:
    """Each kind that the table serves stands in the roles that have it, and in no other."""
    name = WHERE[api][0]
    assert served(api) == set().union(*parts.values())
    for kind in served(api):
        turn = {"role": role, "content": [{"type": kind, **PARTS[kind]}]}
        first = {"role": "assistant", "content": "x", **({"tool_calls": [CALL]} if role == "tool" else {})}
        last = {"role": "user", "content": "x"}
        body = {name: [first, {**turn, "tool_call_id": "c"} if role == "tool" else turn, last]}
        if kind in parts[role]:
            sent(api, **body)
            continue
        with pytest.raises(InvalidField, match="in this role") as caught:
            sent(api, **body)
        assert caught.value.param == f"{name}[1].content[0].type"


def test_an_echo_without_tokens_is_charged_for_the_one_that_the_engine_generates() -> None:
    """The body goes on as it was sent."""
    parsed = sent(Api.COMPLETIONS, max_tokens=0, echo=True, n=2)
    assert (parsed.body["max_tokens"], parsed.cost.output_tokens) == (0, 2)


def test_an_engine_takes_as_many_stop_sequences_as_the_table() -> None:
    """Its default would refuse them."""
    most = TABLE[Api.MESSAGES].kinds[ANY].fields["stop_sequences"].most
    assert dict(vllm.environment(vllm.Place(host="h", port=1)))["VLLM_MAX_STOP_STRINGS"] == str(most)


def test_an_engine_never_sees_encrypted_reasoning() -> None:
    """Callers send it back as OpenAI documents it for answers that are not stored; engines refuse it."""
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
    parsed = sent(Api.RESPONSES, input=[item, {"role": "user", "content": "hi"}])
    assert "input[].encrypted_content" in parsed.told
    assert "encrypted_content" not in str(parsed.body["input"])


FIRST = choice("f")
NO_PARAMETERS = {"type": "object", "properties": {}, "additionalProperties": False}


@pytest.mark.parametrize(
    ("api", "tool", "more", "binds"),
    [
        (Api.CHAT, {"type": "function", "function": {"name": "f"}}, {"tool_choice": "required"}, True),
        (Api.CHAT, {"type": "function", "function": {"name": "f", "strict": True}}, {}, True),
        (
            Api.CHAT,
            {"type": "function", "function": {"name": "f", "parameters": None}},
            {"tool_choice": choice("f")},
            True,
        ),
        (Api.CHAT, {"type": "function", "function": {"name": "f"}}, {}, False),
        (Api.RESPONSES, {"type": "function", "name": "f"}, {"tool_choice": "required"}, True),
        (Api.RESPONSES, {"type": "function", "name": "f"}, {"tool_choice": {"type": "function", "name": "f"}}, True),
    ],
)
def test_a_function_without_parameters_has_none(
    api: Api, tool: dict[str, Any], more: dict[str, Any], binds: bool
) -> None:
    """A call that binds takes no arguments, as OpenAI documents it; the engine alone would let any object through."""
    found: Any = sent(api, tools=[tool], **more).body["tools"]
    (given,) = found
    assert given.get("function", given).get("parameters") == (NO_PARAMETERS if binds else None)
