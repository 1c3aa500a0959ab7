from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from penstock.domain.errors import BadRequest, ContextTooLong, InvalidField
from penstock.domain.serving.request import Api
from penstock.gateway.openai.bounds import MAX_FIELDS, MAX_PARTS, MAX_TEMPLATE_ARGUMENTS, BodyBounds
from penstock.gateway.openai.parse import Parsed, parse
from penstock.gateway.openai.schemas import repeats
from penstock.gateway.openai.tools import MAX_TOOLS

USER = {"role": "user", "content": "hi"}
INPUTS: dict[Api, dict[str, Any]] = {
    Api.CHAT: {"messages": [USER]},
    Api.COMPLETIONS: {"prompt": "hi"},
    Api.EMBEDDINGS: {"input": "hi"},
    Api.RESPONSES: {"input": "hi"},
    Api.MESSAGES: {"messages": [USER], "max_tokens": 9},
}


def told(api: Api, *, context: int = 1000, **changes: Any) -> Parsed:  # noqa: ANN401  any JSON
    body = {"model": "m", **INPUTS[api], **changes}
    return parse(api, msgspec.json.encode(body), BodyBounds(context_tokens=context))


def said(*parts: Any, role: str = "user") -> list[Any]:  # noqa: ANN401  any JSON
    return [{"role": role, "content": list(parts)}]


def tool(**parameters: Any) -> dict[str, Any]:  # noqa: ANN401  any JSON
    return {"type": "function", "function": {"name": "f", "parameters": {"type": "object", **parameters}}}


def test_a_message_holds_a_thousand_parts_and_no_more() -> None:
    """Finding 6: two million parts are refused before they are walked."""
    assert told(Api.CHAT, context=9999, messages=said(*["x"] * MAX_PARTS)).body["messages"]
    with pytest.raises(InvalidField, match="parts"):
        told(Api.CHAT, messages=said(*["x"] * (MAX_PARTS + 1)))


@pytest.mark.parametrize("api", [Api.CHAT, Api.MESSAGES, Api.RESPONSES])
def test_a_conversation_of_more_parts_than_tokens_fits_no_model(api: Api) -> None:
    """Finding 6: each part is a token at least."""
    field = "input" if api is Api.RESPONSES else "messages"
    turns: dict[str, Any] = {field: said(*[{"type": "text", "text": "x"}] * 600) * 2}
    with pytest.raises(ContextTooLong):
        told(api, **turns)


@pytest.mark.parametrize(
    ("api", "body"),
    [
        (Api.COMPLETIONS, {"prompt": [1] * 1001}),
        (Api.COMPLETIONS, {"prompt": [[1], [1] * 1001]}),
        (Api.EMBEDDINGS, {"input": [1] * 1001}),
    ],
)
def test_more_ids_than_any_context_are_told_so(api: Api, body: dict[str, Any]) -> None:
    """Finding 6: millions of token ids are counted, not looked at."""
    with pytest.raises(ContextTooLong):
        told(api, **body)
    assert told(api, context=1001, **body).model == "m"


@pytest.mark.parametrize(
    ("api", "changes"),
    [
        (Api.CHAT, {"tools": [tool()] * (MAX_TOOLS + 1)}),
        (Api.RESPONSES, {"tools": [{"type": "function"}] * (MAX_TOOLS + 1)}),
        (Api.MESSAGES, {"tools": [{"name": "f"}] * (MAX_TOOLS + 1)}),
        (Api.CHAT, {"chat_template_kwargs": {str(i): 1 for i in range(MAX_TEMPLATE_ARGUMENTS + 1)}}),
        (Api.CHAT, {f"x{i}": 1 for i in range(MAX_FIELDS)}),
    ],
    ids=["tools", "tools of responses", "tools of messages", "template arguments", "fields"],
)
def test_what_costs_an_engine_without_being_tokens_is_bounded(api: Api, changes: dict[str, Any]) -> None:
    """Finding 7: 110,000 tools, or 500,000 template arguments, never reach an engine."""
    with pytest.raises(InvalidField):
        told(api, **changes)


def test_an_agent_with_all_the_tools_that_openai_takes_is_served() -> None:
    """The bounds are those that others publish: nobody meets them who could ask elsewhere."""
    properties = {f"p{i}": {"type": "string", "description": "what it is for " * 20} for i in range(35)}
    tools = [tool(properties=properties) for _ in range(MAX_TOOLS)]
    for number, one in enumerate(tools):
        one["function"]["name"] = f"f{number}"
    assert told(Api.CHAT, tools=tools).body["tools"]


@pytest.mark.parametrize("power", [-500, 33, 1e308, "-500"])
def test_a_power_that_no_score_can_be_divided_by_is_refused(power: object) -> None:
    """An engine that raises lengths to it divides by zero, or overflows, and answers as if it had failed itself."""
    with pytest.raises(InvalidField) as caught:
        told(Api.COMPLETIONS, prompt="hi", use_beam_search=True, n=2, length_penalty=power)
    assert caught.value.param == "length_penalty"
    for usual in (-1, 0, 0.6, 1.0, 2, None):
        assert told(Api.COMPLETIONS, prompt="hi", use_beam_search=True, n=2, length_penalty=usual).model == "m"


# -- schemas ---------------------------------------------------------------------------

SELF = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}
RING = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"anyOf": [{"$ref": "#/$defs/a"}]}}}
WIDE = {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(5001)}}
HIDDEN = {"type": "object", "properties": {"description": WIDE}}
LISTED = {"enum": [str(i) for i in range(1001)]}
LONG = {"enum": ["x" * 120_001]}
OPTIONAL = {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(1001)}}
UNICODE = {"type": "array", "items": {"type": "string", "pattern": r"[\u0000-\uffff]{1,5000}x"}, "maxItems": 5000}
NAMED = {"type": "object", "patternProperties": {"^[a-z]{2001}$": {"type": "string"}}}
MANY = {"anyOf": [{"type": "string", "pattern": f"^{i}[a-z]{{1,100}}$"} for i in range(51)]}
TREE = {"type": "object", "properties": {"left": {"$ref": "#"}, "next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}}

HELD: dict[str, Any] = {
    "response_format": lambda it: {"type": "json_schema", "json_schema": {"name": "x", "schema": it}},
    "structured_outputs": lambda it: {"json": it},
    "structured_outputs as text": lambda it: {"json": msgspec.json.encode(it).decode()},
    "tools": lambda it: [{"type": "function", "function": {"name": "f", "parameters": it}}],
}


@pytest.mark.parametrize("holder", HELD)
@pytest.mark.parametrize(
    "schema", [SELF, RING, WIDE, HIDDEN, LISTED, LONG, OPTIONAL, UNICODE, NAMED, MANY], ids=range(10)
)
def test_a_schema_that_would_hang_an_engine_is_refused(holder: str, schema: dict[str, Any]) -> None:
    """Findings 2 and 7: references that lead nowhere, 40,000 properties, endless lists of values, vast repeats."""
    with pytest.raises(InvalidField) as caught:
        told(Api.CHAT, **{holder.partition(" ")[0]: HELD[holder](schema)})
    assert caught.value.param


@pytest.mark.parametrize("holder", HELD)
def test_a_recursive_schema_is_fine(holder: str) -> None:
    """A tree refers to itself, by way of its properties: that ends where its value does."""
    assert told(Api.CHAT, **{holder.partition(" ")[0]: HELD[holder](TREE)}).model == "m"


FULL: dict[str, Any] = {
    "type": "object",
    "properties": {f"p{i}": {"type": "string", "maxLength": 100_000} for i in range(4_000)},
    "required": [f"p{i}" for i in range(4_000)],
    "additionalProperties": False,
    "$defs": {
        "names": {"enum": [f"value {i}" for i in range(1_000)]},
        "slug": {"type": "array", "items": {"type": "string", "pattern": r"^[a-z0-9\-_]{1,255}$"}, "maxItems": 5_000},
        "ids": {"type": "string", "pattern": r"^\{[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\}$"},
        "form": {"type": "object", "properties": {f"f{i}": {"type": "integer"} for i in range(900)}},
    },
}
"""What OpenAI takes: 4,900 properties of at most 5,000, 1,000 values, patterns as products have them, long arrays."""


@pytest.mark.parametrize("holder", HELD)
def test_what_openai_takes_is_taken(holder: str) -> None:
    """No honest schema meets a bound that was made for attackers."""
    assert told(Api.CHAT, **{holder.partition(" ")[0]: HELD[holder](FULL)}).model == "m"


@pytest.mark.parametrize(
    ("pattern", "times"),
    [
        ("^[a-z]{3}$", [3]),
        (r"a{2,}b{,7}c{ 4 , 5 }", [2, 7, 5]),
        (r"\{5000}", []),
        (r"\\{5000}", [5000]),
        (r"[{5000}]x[]{9}]{4}", [4]),
        (r"\u{10000}\x{41}\p{L}{6}", [6]),
        ("a{99999999999999999999}", [10**6]),
        ("a{000000000003}", [3]),
        ("{}{,}{x}", []),
        ("[" * 100_000 + "\\", []),
    ],
)
def test_repeats_are_the_numbers_in_braces(pattern: str, times: list[int]) -> None:
    """What stands escaped, or in a class, is text; none of it takes long to tell."""
    assert list(repeats(pattern)) == times


TAG = {"type": "structural_tag", "format": {"type": "json_schema", "json_schema": WIDE}}


@pytest.mark.parametrize(
    "asked",
    [
        {"choice": ["x"] * 1001},
        {"choice": ["x" * 120_001]},
        {"regex": "x" * 120_001},
        {"grammar": "x" * 120_001},
        {"regex": "x{2001}"},
        {"grammar": 'root ::= "x"{5000}'},
        {"structural_tag": msgspec.json.encode(TAG).decode()},
        {"structural_tag": '{"format": {"type": "regex", "pattern": "x{1,2001}"}}'},
        {"structural_tag": '{"structures": [{"begin": "a", "schema": {"pattern": "x{5000}"}, "end": "b"}]}'},
    ],
)
def test_choices_patterns_and_grammars_are_bounded(asked: dict[str, Any]) -> None:
    """Finding 7: a choice of 200,000 values was compiled on after its caller had left."""
    with pytest.raises(InvalidField):
        told(Api.CHAT, structured_outputs=asked)


# -- addresses -------------------------------------------------------------------------

AWAY = "http://169.254.169.254/latest"
FETCHING: list[tuple[Api, dict[str, Any]]] = [
    (Api.CHAT, {"messages": said({"type": "image_url", "image_url": {"url": AWAY}})}),
    (Api.CHAT, {"messages": said({"image_url": AWAY})}),
    (Api.CHAT, {"messages": said({"type": "audio_url", "audio_url": {"url": "file:///etc/passwd"}})}),
    (Api.CHAT, {"messages": said({"type": "video_url", "video_url": {"url": f" {AWAY}"}})}),
    (Api.EMBEDDINGS, {"input": None, "messages": said({"type": "image_url", "image_url": {"url": AWAY}})}),
    (Api.RESPONSES, {"input": said({"type": "input_image", "image_url": AWAY})}),
    (Api.RESPONSES, {"input": said({"type": "input_file", "file_url": AWAY})}),
    (Api.RESPONSES, {"input": [{"type": "computer_call_output", "output": {"image_url": AWAY}}]}),
    (Api.MESSAGES, {"messages": said({"type": "image", "source": {"type": "url", "url": AWAY}})}),
    (
        Api.MESSAGES,
        {"messages": said({"type": "tool_result", "content": [{"source": {"type": "url", "url": AWAY}}]})},
    ),
]


@pytest.mark.parametrize(("api", "body"), FETCHING, ids=range(len(FETCHING)))
def test_no_address_is_fetched_for_a_caller(api: Api, body: dict[str, Any]) -> None:
    """Finding 15: media come as ``data:``, in every API and at every depth."""
    with pytest.raises(InvalidField, match="data:"):
        told(api, **body)


CITATION = {"type": "url_citation", "url": AWAY}
HARMLESS: list[tuple[Api, dict[str, Any]]] = [
    (Api.CHAT, {"messages": said({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}})}),
    (Api.RESPONSES, {"input": said({"type": "output_text", "annotations": [CITATION]}, role="assistant")}),
    (Api.MESSAGES, {"messages": [*said({"type": "tool_use", "input": {"image_url": AWAY}}, role="assistant"), USER]}),
    (Api.CHAT, {"messages": [{"role": "user", "content": f"what is {AWAY}?"}]}),
]


@pytest.mark.parametrize(("api", "body"), HARMLESS, ids=range(len(HARMLESS)))
def test_an_address_that_nobody_fetches_is_text(api: Api, body: dict[str, Any]) -> None:
    """Citations, arguments of tools and plain words may name any address."""
    assert told(api, **body).model == "m"


ODD: list[Any] = [[1], {}, {"a": 1}, 5, True]


@pytest.mark.parametrize("odd", ODD, ids=str)
@pytest.mark.parametrize(
    ("api", "field", "made"),
    [
        (Api.CHAT, "messages", said),
        (Api.MESSAGES, "messages", said),
        (Api.MESSAGES, "messages", lambda part: said({"type": "tool_result", "content": part})),
        (Api.MESSAGES, "messages", lambda part: said({"type": "tool_result", "content": [part]})),
        (Api.MESSAGES, "system", lambda part: [part]),
        (Api.RESPONSES, "input", lambda part: [part]),
        (Api.RESPONSES, "input", said),
        (Api.COMPLETIONS, "input", lambda part: [part]),
        (Api.COMPLETIONS, "prompt", lambda part: part),
        (Api.EMBEDDINGS, "input", lambda part: part),
        (Api.EMBEDDINGS, "input", lambda part: [part]),
    ],
)
def test_a_type_that_is_no_word_is_told_with_its_field(
    api: Api, field: str, made: Callable[[Any], Any], odd: object
) -> None:
    """A list or an object where a part says what it is was a fault of ours, whoever asked for whatever model."""
    with pytest.raises(InvalidField) as refused:
        told(api, **{field: made({"type": odd, "text": "x"})})
    assert (refused.value.param or "").startswith(field)


@pytest.mark.parametrize("api", [Api.CHAT, Api.COMPLETIONS])
@pytest.mark.parametrize(
    ("field", "odd"),
    [
        *(("structured_outputs", odd) for odd in ([0.5], [1], [], 5, True, "json", {}, {"json": None}, {"x": 1})),
        *(("structured_outputs", {name: 0.5}) for name in ("json", "regex", "choice", "grammar", "structural_tag")),
        ("structured_outputs", {"json": {}, "regex": "a"}),
        *(("response_format", odd) for odd in ([1], 5, True, "json", {}, {"type": [1]}, {"type": 5})),
        *((f"guided_{kind}", [0.5]) for kind in ("json", "regex", "choice", "grammar")),
    ],
    ids=str,
)
def test_a_form_of_the_answer_that_is_none_never_reaches_an_engine(api: Api, field: str, odd: Any) -> None:  # noqa: ANN401  any JSON
    """Each was an engine's failure, or would be its word: the field is named here."""
    with pytest.raises(BadRequest) as refused:
        told(api, **{field: odd})
    assert (refused.value.param or "").startswith(field)


@pytest.mark.parametrize(
    "given",
    [{"json": "{}"}, {"json": {}}, {"regex": "a", "json": None}, {"choice": ["a"]}, {"json_object": True}],
    ids=str,
)
def test_a_form_of_the_answer_that_is_one_passes(given: dict[str, Any]) -> None:
    """One constraint, whatever stands beside it, is the engine's to compile; null is silence."""
    assert told(Api.CHAT, structured_outputs=given).body["structured_outputs"] == {
        name: value for name, value in given.items() if value is not None
    }
    assert told(Api.CHAT, structured_outputs=None, response_format=None).model == "m"


# -- nesting and streams -----------------------------------------------------------------


@pytest.mark.parametrize(
    "message",
    [
        {"tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "[" * 100_000}}]},
        {"function_call": {"name": "f", "arguments": '{"a":' * 100 + "1" + "}" * 100}},
    ],
)
def test_deep_json_in_arguments_is_the_callers_fault(message: dict[str, Any]) -> None:
    """Finding 17: it was our 500."""
    with pytest.raises(InvalidField, match="deep"):
        told(Api.CHAT, messages=[{"role": "assistant", "content": None, **message}])


CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "[" * 100_000}}
ROLE, CONTENT = {"role": "assistant"}, {"content": None}
HOLDERS: list[dict[str, Any]] = [
    {"tool_calls": [CALL]},
    {"function_call": CALL["function"]},
    {"arguments": "[" * 100_000},
]


@pytest.mark.parametrize("beside", [{}, ROLE, CONTENT, ROLE | CONTENT, ROLE | CONTENT | {"name": "a"}])
@pytest.mark.parametrize("holder", HOLDERS, ids=lambda holder: next(iter(holder)))
@pytest.mark.parametrize("api", [Api.CHAT, Api.RESPONSES])
def test_deep_arguments_are_found_whatever_stands_beside_them(
    api: Api, holder: dict[str, Any], beside: dict[str, Any]
) -> None:
    """A turn of role and calls alone is bounded like one with content: the fields are asked for, not their number."""
    turns = [{**beside, **holder}]
    changes: dict[str, Any] = {"input": turns} if api is Api.RESPONSES else {"messages": turns}
    with pytest.raises(InvalidField, match="deep"):
        told(api, **changes)


def test_broken_arguments_stay_the_models_own() -> None:
    """What a model wrote that is no JSON comes back in conversations, however many brackets it has."""
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": [1], ' * 90}}
    assert told(Api.CHAT, messages=[{"role": "assistant", "content": None, "tool_calls": [call]}]).model == "m"


def test_embeddings_do_not_stream() -> None:
    """Finding 2: ``stream`` never goes on, so no engine answers in a form that passes for a lost worker."""
    with pytest.raises(InvalidField, match="stream"):
        told(Api.EMBEDDINGS, stream=True)
    parsed = told(Api.EMBEDDINGS, stream=False)
    assert not parsed.stream
    assert parsed.body == {"model": "m", "input": "hi"}
